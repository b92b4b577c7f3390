"""Rewards: each call of the reward loop, and what it asks of reward models over HTTP."""

import functools
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed, read_after
from verl_otel.instrumentors.reading import integer, text
from verl_otel.patching import patches
from verl_otel.telemetry import content, rewards
from verl_otel.telemetry.rewards import Reward, RewardCall, Sample

_NAME: Final = "verl_rewards"
_own: Final = patches(_NAME)


def start_reward(worker: Any, data: Any = None, *_: Any, **__: Any) -> RewardCall:
    """A sample is to be rewarded."""
    content.handled()
    return RewardCall(read_sample(worker.config, data.non_tensor_batch))


def read_sample(config: Any, fields: Any) -> Sample:
    """What is rewarded, from a DataProto's fields; of several sequences of a session, the last."""

    def last(name: str) -> Any:
        found = fields.get(name)
        return found[-1] if found is not None and len(found) else None

    uid, session, source = last("uid"), last("session_id"), last("data_source")
    return Sample(
        read_function(config.reward),
        text(uid),
        integer(session),
        text(source),
    )


def read_function(config: Any) -> str:
    """What rewards: the user's function, else the reward model, the sandbox, or the manager with verl's own rules."""
    custom, model = config.custom_reward_function, config.reward_model
    if custom.path is not None:
        return str(custom.name)
    if model.enable:
        return PurePath(str(model.model_path)).name
    sandbox = config.get("sandbox_fusion")
    return "sandbox_fusion" if sandbox and sandbox.get("url") else str(config.reward_manager.name)


def finish_reward(call: RewardCall, result: Any) -> None:
    """The reward is there."""
    score = result.get("reward_score")
    parts = rewards.numeric(result.get("reward_extra_info") or {})
    call.given(Reward(float(score) if rewards.is_number(score) else None, parts))


class _Posting:
    """A request to a reward model, repeated until it succeeds."""

    def __init__(self) -> None:
        self._call = rewards.current()
        self._before = self._call.requests if self._call is not None else 0

    def stop(self) -> None:
        """It was answered."""
        if self._call is not None:
            rewards.repeated(self._call.requests - self._before - 1)

    def fail(self, error: BaseException) -> None:
        """It was given up."""
        self.stop()


def start_post(*_: Any, **__: Any) -> Observation:
    """The reward loop asks a reward model."""
    return _Posting()


def learn_router(_: Any, worker: Any, *__: Any, **___: Any) -> None:
    """Where the reward models' router is: what this process sends there carries its trace."""
    if address := getattr(worker, "reward_router_address", None):
        _routers.add(str(address))


_routers: set[str] = set()
"""host:port of this run's own routers; nobody else is sent our headers."""


async def carry(_: Any, __: Any, request: Any) -> None:
    """aiohttp starts a request: add the trace's header, if it goes to a router of verl's, and count it."""
    if _own.active and request.url.authority in _routers:
        with guard("carrying a trace over HTTP"):
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

            TraceContextTextMapPropagator().inject(request.headers)
            if (call := rewards.current()) is not None:
                call.requested()


def wrap_session_init(original: Callable[..., None]) -> Callable[..., None]:
    """Have aiohttp call us when a request starts, as its own tracing does."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if _own.active and _routers:
            with guard("watching an HTTP session"):
                import aiohttp

                trace = aiohttp.TraceConfig()
                trace.on_request_start.append(carry)
                kwargs["trace_configs"] = [*(kwargs.get("trace_configs") or ()), trace]
        original(self, *args, **kwargs)

    return init


_LOOP: Final = "verl.experimental.reward_loop.reward_loop"


class RewardsInstrumentor(VerlInstrumentor):
    """Reward calls, from the reward loop's workers."""

    name = _NAME
    targets = (
        Target(_LOOP, "RewardLoopWorker.compute_score", observed(_own, start_reward, finish_reward), reads=("data",)),
        Target(_LOOP, "RewardLoopWorker._post_request", observed(_own, start_post)),
        Target(_LOOP, "RewardLoopWorker.__init__", read_after(_own, "the reward router's address", learn_router)),
    )

    def _patch_more(self, *, by_program: bool) -> None:
        content.keep_private("RewardLoopWorker")
        self.patches.when_imported("verl", lambda _: self.patches.when_imported("aiohttp", self._watch_sessions))

    def _watch_sessions(self, aiohttp: Any) -> None:
        self.patches.wrap(aiohttp.ClientSession, "__init__", wrap_session_init)
