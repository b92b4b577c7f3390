"""Model calls of an agent loop: the client's side, by OTel's gen_ai convention."""

from dataclasses import dataclass
from typing import Any

from opentelemetry.trace import SpanKind

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.semconv import gen_ai
from verl_otel.telemetry import content, replicas, scope, trajectories
from verl_otel.telemetry.instruments import count, measure
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.slot import Slot


@dataclass(frozen=True)
class Answer:
    """What an engine gave, in tokens; None where it doesn't say. `weights`: version that it was made with."""

    output_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    preemptions: int | None = None
    weights: int | None = None
    aborted: bool = False


class ModelCall:
    """A call from its start to `stop` or `fail`; meanwhile its trajectory waits for the model."""

    def __init__(self, input_tokens: int, *, resumes: bool = False, role: str = replicas.ROLLOUT) -> None:
        """`resumes`: it is made by a client that goes on where an aborted call of the same trajectory ended.

        `role`: of the model; one that isn't the rollout's is no turn of the trajectory.
        """
        self.role = role
        self._input = input_tokens
        self._answer: Answer | None = None
        self._told: dict[str, Any] = {}
        self._waiting = trajectories.Waiting(trajectories.MODEL)
        self._trajectory = self._waiting.trajectory if role == replicas.ROLLOUT else None
        self._labels: dict[str, Any] = {
            semconv.GEN_AI_OPERATION_NAME: semconv.SPAN_GENERATE_CLIENT,
            semconv.ROLE: role,
        }
        if (trajectory := self._trajectory) is not None:
            trajectory.model_calls += 1
            if resumes and trajectory.aborted:
                self._resumed(trajectory)
            trajectory.aborted = False
        here = scope.current()
        self.recording = Recording(
            semconv.SPAN_GENERATE_CLIENT,
            {**self._labels, semconv.STEP: here.step, semconv.GEN_AI_INPUT_TOKENS: input_tokens},
            scope=here,
            kind=SpanKind.CLIENT,
            parent=_slot.holding(self),
            sampled=trajectory is None or trajectory.has_room,
            private=True,
        )

    def acquired(self, address: str, seconds: float) -> None:
        """The load balancer named the replica at `address` (host:port) after so long."""
        host, _, port = address.rpartition(":")
        trajectory = self._trajectory
        before = trajectory.replica if trajectory is not None else None
        if trajectory is not None:
            trajectory.replica = address
        self._told |= {
            semconv.SERVER_ADDRESS: host.strip("[]") or None,
            semconv.SERVER_PORT: int(port) if port.isdigit() else None,
            semconv.BALANCER_WAIT: seconds,
            semconv.BALANCER_STICKY: None if before is None else before == address,
        }

    def answered(self, answer: Answer, text: str | None = None) -> None:
        """The engine answered; `text`: where content is captured."""
        self._answer = answer
        reason = answer.finish_reason
        self._told |= {
            semconv.GEN_AI_OUTPUT_TOKENS: answer.output_tokens,
            semconv.GEN_AI_CACHED_TOKENS: answer.cached_tokens,
            semconv.GEN_AI_FINISH_REASONS: (reason,) if reason else None,
            semconv.WEIGHTS_VERSION: answer.weights,
        }
        if (trajectory := self._trajectory) is not None:
            trajectory.stop_reason, trajectory.aborted = reason, answer.aborted
        if text is not None:
            room = trajectory.room if trajectory is not None else None
            said = content.messages([("assistant", text)], reason or "")
            content.keep(self.recording.span, {semconv.GEN_AI_OUTPUT_MESSAGES: said}, room)

    def _resumed(self, trajectory: trajectories.Trajectory) -> None:
        trajectory.resumed += 1
        self._told[semconv.ROLLOUT_RESUMED] = trajectory.resumed
        with guard("counting a resumed call"):
            count(semconv.ROLLOUT_RESUMES, 1, {semconv.VALIDATION: trajectory.validation})

    def stop(self) -> None:
        """The call returned."""
        self._measure({})
        self.recording.stop()

    def fail(self, error: BaseException) -> None:
        """The call raised."""
        self._measure({semconv.ERROR_TYPE: type(error).__name__})
        self.recording.fail(error)

    def _measure(self, more: dict[str, Any]) -> None:
        self._waiting.over()
        self.recording.set(self._told)
        with guard("measuring a model call"):
            metrics, span, labels = gen_ai.model_call_metrics(), self.recording.span, {**self._labels, **more}
            measure(metrics.duration, self.recording.seconds, labels, span)
            tokens = {"input": (metrics.input_tokens, self._input)}
            if self._answer is not None and self._answer.output_tokens is not None:
                tokens["output"] = (metrics.output_tokens, self._answer.output_tokens)
            one_metric = metrics.input_tokens is metrics.output_tokens
            for kind, (metric, number) in tokens.items():
                told = {semconv.GEN_AI_TOKEN_TYPE: kind} if one_metric else {}
                measure(metric, number, {**labels, **told}, span)


_slot = Slot(ModelCall)
current = _slot.current
"""The model call that the code at hand belongs to; else None."""
