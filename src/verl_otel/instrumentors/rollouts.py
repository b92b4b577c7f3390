"""Rollouts: the agent loop's sessions, its model calls, and the engine servers' side of them."""

from typing import Any, Final

from verl_otel.instrumentors.base import Target, VerlInstrumentor, observed
from verl_otel.patching import patches
from verl_otel.telemetry import rollouts
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.rollouts import Generation, Trajectory

_NAME: Final = "verl_rollouts"


def start_session(
    worker: Any, sampling_params: Any, trajectory: dict[str, Any], *_: Any, agent_name: str = "", **kwargs: Any
) -> Recording:
    """A session of an agent loop begins."""
    return rollouts.start_trajectory(read_trajectory(trajectory, agent_name, kwargs))


def read_trajectory(trajectory: dict[str, Any], agent_name: str, kwargs: dict[str, Any]) -> Trajectory:
    """What identifies the session: V1 gives uid and session beside the trajectory, legacy the repeat in it."""
    uid = kwargs.get("uid")
    session = kwargs.get("session_id", trajectory.get("rollout_n"))
    step = trajectory.get("step")
    return Trajectory(
        agent=agent_name,
        uid=str(uid) if uid is not None else None,
        session=int(session) if session is not None else None,
        step=int(step) if step is not None else None,
        validation=bool(trajectory.get("validate", False)),
    )


def start_client_call(*_: Any, prompt_ids: Any = None, **__: Any) -> Recording:
    """The agent loop asks an engine."""
    tokens = len(prompt_ids)
    recording = rollouts.start_model_call()
    recording.set(rollouts.client_attributes(Generation(input_tokens=tokens)))
    return recording


def start_server_call(engine: str) -> Any:
    """The engine `engine` is asked."""

    def start_generate(server: Any, prompt_ids: Any = None, *_: Any, **__: Any) -> Recording:
        replica, tokens = getattr(server, "replica_rank", None), len(prompt_ids)
        recording = rollouts.start_engine_call(engine, int(replica) if replica is not None else None)
        recording.set(rollouts.engine_attributes(Generation(input_tokens=tokens)))
        return recording

    return start_generate


def read_generation(output: Any) -> Generation:
    """Tokens and stop reason of verl's TokenOutput."""
    reason = getattr(output, "stop_reason", None)
    return Generation(output_tokens=len(output.token_ids), finish_reason=str(reason) if reason is not None else None)


def finish_client_call(recording: Recording, output: Any) -> None:
    """Read the answer on the agent loop's side."""
    recording.set(rollouts.client_attributes(read_generation(output)))


def finish_server_call(recording: Recording, output: Any) -> None:
    """Read the answer on the engine's side."""
    recording.set(rollouts.engine_attributes(read_generation(output)))


_own = patches(_NAME)
_client = observed(_own, start_client_call, finish_client_call)
_PROMPT: Final = ("prompt_ids", "sampling_params", "request_id")
_ROLLOUT: Final = "verl.workers.rollout"


class RolloutsInstrumentor(VerlInstrumentor):
    """Trajectories and model calls, from the agent loop worker, its model client and the engine servers."""

    name = _NAME
    targets = (
        Target(
            "verl.experimental.agent_loop.agent_loop",
            "AgentLoopWorker._run_agent_loop",
            observed(_own, start_session),
            reads=("sampling_params", "trajectory", "agent_name"),
        ),
        Target(
            "verl.experimental.agent_loop.agent_loop", "AsyncLLMServerManager.generate", _client, _PROMPT, until="0.7.1"
        ),
        Target(f"{_ROLLOUT}.llm_server", "LLMServerClient.generate", _client, _PROMPT, since="0.8.0"),
        Target(
            f"{_ROLLOUT}.vllm_rollout.vllm_async_server",
            "vLLMHttpServer.generate",
            observed(_own, start_server_call("vllm"), finish_server_call),
            _PROMPT,
        ),
        Target(
            f"{_ROLLOUT}.sglang_rollout.async_sglang_server",
            "SGLangHttpServer.generate",
            observed(_own, start_server_call("sglang"), finish_server_call),
            _PROMPT,
        ),
    )
