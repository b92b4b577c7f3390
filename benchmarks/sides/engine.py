"""A real vLLM engine on this machine's CPU, asked as verl's agent loop and server ask it, with our wrappers or without.

Agent loop and server are one process here, so that what both cost is in one number.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import verl_otel
from benchmarks.children import serve

TOKENS: Final = 256
PROMPT: Final = list(range(3, 35))
_PROBE: Final = 0.001
_OWN: Final = ("verl_agent_loops", "verl_model_clients", "verl_vllm")


@dataclass
class Output:
    """As verl's TokenOutput, as far as it is read."""

    token_ids: list[int]
    stop_reason: str = "completed"
    num_preempted: int | None = None
    extra_fields: dict[str, Any] = field(default_factory=dict)


class Instant:
    """An engine that has its answer ready: what is left of a request is the way to it, and ours."""

    observability_config = engine_core = output_processor = None

    async def generate(self, prompt: Any, sampling_params: Any, request_id: str) -> AsyncGenerator[Any, None]:
        """A part for each token, with all before."""
        from types import SimpleNamespace

        for number in range(TOKENS):
            made = SimpleNamespace(token_ids=range(number + 1), finish_reason=None)
            yield SimpleNamespace(outputs=[made], metrics=None)


class Loop:
    """Agent loop, client and server round the engine, with the wrappers that verl's have."""

    replica_rank = 0
    _disaggregation_role = "null"

    def __init__(self, model: str) -> None:
        verl_otel.instrument()
        import verl  # noqa: F401 - our hooks wait for it
        from vllm import SamplingParams
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        from verl_otel.instrumentors import agent_loops, engines, model_clients
        from verl_otel.instrumentors.base import observed
        from verl_otel.instrumentors.vllm import wrap_answers
        from verl_otel.patching import patches

        self._own = [patches(name) for name in _OWN]
        loops, clients, vllm = self._own
        self._session = observed(loops, agent_loops.start_session)(Loop._session)
        self._ask = observed(clients, model_clients.start_call, model_clients.finish_call)(Loop._ask)
        self._serve = observed(vllm, engines.start_request("vllm"), engines.finish_request)(Loop._serve)
        self._sampling = SamplingParams(max_tokens=TOKENS, ignore_eos=True)
        self._engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                model=model, enforce_eager=True, max_model_len=512, max_num_seqs=64, max_num_batched_tokens=2048
            )
        )
        self._real, self._instant = self._engine, Instant()
        patches("verl_vllm").wrap(Instant, "generate", wrap_answers)
        self._numbers = iter(range(10**9))

    async def _session(self, sampling_params: Any, trajectory: Any, *, agent_name: str, **_: Any) -> None:
        await self._ask(self, prompt_ids=PROMPT)

    async def _ask(self, *, prompt_ids: Any) -> Output:
        output: Output = await self._serve(self, prompt_ids)
        return output

    async def _serve(self, prompt_ids: Any) -> Output:
        last: Any = None
        asked = {"prompt": {"prompt_token_ids": prompt_ids}, "sampling_params": self._sampling}
        async for part in self._engine.generate(**asked, request_id=str(next(self._numbers))):
            last = part
        return Output(list(last.outputs[0].token_ids))

    async def run(self, requests: int, at_once: int, ours: bool, instant: bool) -> dict[str, float]:
        """CPU seconds of all processes, and how late the event loop was for a timer of 1 ms: 99th percentile, s."""
        self._engine = self._instant if instant else self._real
        for own in self._own:
            own.active = ours
        gate, late = asyncio.Semaphore(at_once), []
        done = asyncio.Event()

        async def one(number: int) -> None:
            async with gate:
                trajectory = {"step": 1, "sample_index": number, "rollout_n": 0, "validate": False}
                named = {"agent_name": "single_turn_agent", "uid": str(number), "session_id": 0}
                await self._session(self, {}, trajectory, **named)

        async def probe() -> None:
            while not done.is_set():
                before = time.perf_counter()
                await asyncio.sleep(_PROBE)
                late.append(time.perf_counter() - before - _PROBE)

        probing = asyncio.create_task(probe())
        before = cpu()
        await asyncio.gather(*(one(number) for number in range(requests)))
        verl_otel.flush(10)
        spent = cpu() - before
        done.set()
        await probing
        late.sort()
        return {"cpu": spent / requests, "late": late[int(0.99 * len(late))]}


def cpu() -> float:
    """CPU seconds of this process and of its children, the engine's core among them."""
    ticks = sum(_ticks(pid) for pid in [os.getpid(), *_children(os.getpid())])
    return ticks / os.sysconf("SC_CLK_TCK")


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(one) for one in (task / "children").read_text().split()]
    return found + [below for one in found for below in _children(one)]


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def open_trajectories(count: int) -> int:
    """Bytes of resident memory that so many open trajectories take."""
    from verl_otel.telemetry.trajectories import Session, Trajectory

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    held = [Trajectory(Session("tool_agent", f"{number:032x}", 0, 1)) for number in range(count)]
    grown = resident() - before
    for one in reversed(held):
        one.stop()
    return grown


def main() -> None:
    """Serve until the input ends; `start` first, since an engine talks to whoever started it."""
    os.environ |= {"OTEL_EXPORTER_OTLP_ENDPOINT": sys.argv[1], "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
    events = asyncio.new_event_loop()
    asyncio.set_event_loop(events)
    started: list[Loop] = []

    async def make() -> Loop:
        return Loop(sys.argv[2])

    def start() -> None:
        started.append(events.run_until_complete(make()))

    def run(requests: int, at_once: int, ours: bool, instant: bool) -> dict[str, float]:
        return events.run_until_complete(started[0].run(requests, at_once, ours, instant))

    serve(start=start, run=run, open_trajectories=open_trajectories)


if __name__ == "__main__":
    main()
