"""Model clients: the agent loop's side of a model call, and the load balancer that it asks first."""

from collections.abc import Sequence
from time import monotonic
from typing import Any, Final

from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed
from verl_otel.instrumentors.reading import integer, text
from verl_otel.patching import patches
from verl_otel.telemetry import content, model_calls, replicas, trajectories
from verl_otel.telemetry.model_calls import Answer, ModelCall

_NAME: Final = "verl_model_clients"
_own: Final = patches(_NAME)
_ABORTED: Final = ("aborted", "abort")


def start_call(client: Any, *_: Any, prompt_ids: Any = None, sampling_params: Any = None, **__: Any) -> ModelCall:
    """The agent loop asks an engine; a client that resumes asks again after an abort, for the rest."""
    resumes = any(one.__name__ == _RESUMING for one in type(client).__mro__)
    return ModelCall(len(prompt_ids), resumes=resumes, role=read_role(sampling_params))


def read_role(sampling_params: Any) -> str:
    """Only a teacher is asked what it thinks of the prompt."""
    asked = sampling_params.get("prompt_logprobs") if sampling_params else None
    return replicas.ROLLOUT if asked is None else _TEACHER


def finish_call(call: ModelCall, output: Any) -> None:
    """The engine answered."""
    trajectory = trajectories.current()
    decode = trajectory.decode if trajectory is not None and call.role == replicas.ROLLOUT else None
    call.answered(read_answer(output), decode(output.token_ids[: content.MAX_TEXT]) if decode is not None else None)


def read_answer(output: Any) -> Answer:
    """What verl's TokenOutput says."""
    fields = getattr(output, "extra_fields", None) or {}
    reason, tokens = getattr(output, "stop_reason", None), output.token_ids
    return Answer(
        output_tokens=len(tokens) if isinstance(tokens, Sequence) or hasattr(tokens, "__len__") else None,
        cached_tokens=integer(fields.get("num_cached_tokens")),
        finish_reason=text(reason),
        preemptions=integer(getattr(output, "num_preempted", None)),
        weights=integer(fields.get("global_steps")),
        aborted=reason in _ABORTED,
    )


class _Acquiring:
    """The load balancer is asked for a replica."""

    def __init__(self) -> None:
        self._since = monotonic()
        self._waiting = trajectories.Waiting(trajectories.BALANCER)
        self.call = model_calls.current()

    def named(self, address: str) -> None:
        """It named one."""
        if self.call is not None:
            self.call.acquired(address, monotonic() - self._since)

    def stop(self) -> None:
        """It answered."""
        self._waiting.over()

    def fail(self, error: BaseException) -> None:
        """It has no replica, or is gone."""
        self._waiting.over()


def start_acquire(*_: Any, **__: Any) -> Observation | None:
    """The client asks where to send its request; one that asks again until there is a replica is one question."""
    return None if trajectories.is_waiting_for(trajectories.BALANCER) else _Acquiring()


def finish_acquire(acquiring: _Acquiring, found: Any) -> None:
    """The balancer answered with the server's address and handle."""
    acquiring.named(str(found[0]))


_CLIENT: Final = "verl.workers.rollout.llm_server"
_RESUMING: Final = "FullyAsyncLLMServerClient"
_TEACHER: Final = "teacher"
_call: Final = observed(_own, start_call, finish_call)
_PROMPT: Final = ("prompt_ids", "sampling_params", "request_id")


class ModelClientsInstrumentor(VerlInstrumentor):
    """Model calls, from the client that agent loops are given."""

    name = _NAME
    targets = (
        Target(
            "verl.experimental.agent_loop.agent_loop", "AsyncLLMServerManager.generate", _call, _PROMPT, until="0.7.1"
        ),
        Target(_CLIENT, "LLMServerClient.generate", _call, _PROMPT, since="0.8.0"),
        Target(
            _CLIENT,
            "LLMServerClient._acquire_server",
            observed(_own, start_acquire, finish_acquire),
            reads=("request_id",),
            since="0.8.0",
        ),
        Target(
            _CLIENT,
            f"{_RESUMING}._acquire_server",
            observed(_own, start_acquire, finish_acquire),
            reads=("request_id",),
            since="0.9.0",
        ),
    )
