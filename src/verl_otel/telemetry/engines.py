"""Requests in an engine's server: the server's side of a model call, or a request that came over HTTP.

No published convention has a span for it, so its names are our own, and no backend counts the tokens twice.
"""

from dataclasses import dataclass
from time import monotonic
from typing import Any

from opentelemetry.trace import SpanKind

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.telemetry import replicas, scope
from verl_otel.telemetry.instruments import measure
from verl_otel.telemetry.model_calls import Answer
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.slot import Slot


@dataclass(frozen=True)
class Timing:
    """Seconds of an engine's own clock; None where it doesn't say. `rank`: data-parallel rank that served."""

    queued: float | None = None
    first_token: float | None = None
    rank: int | None = None


class EngineRequest:
    """A request from its arrival at the server to `stop` or `fail`."""

    def __init__(self, input_tokens: int | None) -> None:
        here, one = scope.current(), replicas.replica()
        self._step = here.step
        self._state = replicas.RUNNING
        self._submitted: float | None = None
        self._first: float | None = None
        self._last: float | None = None
        self._answer = Answer()
        self._told: dict[str, Any] = {}
        self._labels = one.labels
        self.recording = Recording(
            semconv.SPAN_GENERATE_SERVER,
            {
                **one.labels,
                semconv.LANE: one.lane,
                semconv.STEP: here.step,
                semconv.ENGINE_INPUT_TOKENS: input_tokens,
                semconv.WEIGHTS_VERSION: replicas.weights(),
            },
            scope=here,
            parent=_slot.holding(self),
            kind=SpanKind.SERVER,
            private=True,
        )
        with guard("counting an engine's request"):
            replicas.entered(self._state, self._step)

    @classmethod
    def aside(cls) -> "EngineRequest":
        """One that is not made current: it is served bit by bit, in the context of whoever asks for the next."""
        made = cls(None)
        made.recording.detach()
        return made

    def parked(self) -> None:
        """It waits at verl's gate."""
        replicas.moved(self._state, replicas.PARKED, self._step)
        self._state = replicas.PARKED

    def admitted(self, seconds: float) -> None:
        """The gate let it through, or refused it, after so long."""
        replicas.moved(self._state, replicas.RUNNING, self._step)
        self._state = replicas.RUNNING
        self._told[semconv.ENGINE_PARKED] = seconds
        self._measure(semconv.ENGINE_PARKED_DURATION, seconds)

    def submitted(self) -> None:
        """The engine took it."""
        self._submitted = monotonic()

    def produced(self) -> None:
        """The engine gave the first of the answer."""
        self._first = monotonic()

    def timed(self, timing: Timing) -> None:
        """The engine told of its own times."""
        with guard("an engine's times"):
            self._last = monotonic()
            self._told |= {semconv.ENGINE_DATA_PARALLEL_RANK: timing.rank, semconv.ENGINE_QUEUED: timing.queued}
            if timing.queued is not None:
                self._measure(semconv.ENGINE_QUEUE_DURATION, timing.queued)
            if timing.first_token is not None and self._submitted is not None:
                self._first = self._submitted + timing.first_token

    def cached(self, tokens: int) -> None:
        """So many tokens of the prompt were in the engine's cache."""
        self._told[semconv.ENGINE_CACHED_TOKENS] = tokens

    def answered(self, answer: Answer) -> None:
        """The server has the whole answer."""
        self._answer = answer
        found = {
            semconv.ENGINE_OUTPUT_TOKENS: answer.output_tokens,
            semconv.ENGINE_CACHED_TOKENS: answer.cached_tokens,
            semconv.ENGINE_FINISH_REASON: answer.finish_reason,
            semconv.ENGINE_PREEMPTIONS: answer.preemptions,
            semconv.WEIGHTS_VERSION: answer.weights,
        }
        self._told |= {name: value for name, value in found.items() if value is not None}

    def stop(self) -> None:
        """The server returned."""
        self._finish(None)
        self.recording.stop()

    def fail(self, error: BaseException) -> None:
        """The server raised, or was told to stop."""
        self._finish(type(error).__name__)
        self.recording.fail(error)

    def _finish(self, error: str | None) -> None:
        with guard("ending an engine's request"):
            replicas.left(self._state, self._answer.output_tokens or 0)
            more = {} if error is None else {semconv.ERROR_TYPE: error}
            self._measure(semconv.SERVER_DURATION, self.recording.seconds, more)
            self._tell_token_times()
            self.recording.set(self._told)

    def _tell_token_times(self) -> None:
        tokens = self._answer.output_tokens
        if self._submitted is None or self._first is None or not tokens:
            return
        self._told[semconv.ENGINE_FIRST_TOKEN] = first = self._first - self._submitted
        self._measure(semconv.SERVER_FIRST_TOKEN, first)
        if tokens > 1 and self._last is not None:
            self._told[semconv.ENGINE_PER_TOKEN] = each = (self._last - self._first) / (tokens - 1)
            self._measure(semconv.SERVER_PER_TOKEN, each)

    def _measure(self, metric: semconv.MetricName, value: float, more: dict[str, Any] | None = None) -> None:
        measure(metric, value, {**self._labels, **(more or {})}, self.recording.span)


_slot = Slot(EngineRequest)
current = _slot.current
"""The request that the code at hand serves; else None."""
