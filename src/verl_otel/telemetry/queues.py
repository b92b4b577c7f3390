"""Operations on the queue between rollouts and trainer: a span where they belong to something, a duration always."""

from opentelemetry import trace

from verl_otel import semconv
from verl_otel.telemetry import scope
from verl_otel.telemetry.recording import Recording


def start(operation: str, keys: int, partition: str) -> Recording | None:
    """Start one, for so many keys of a partition; None outside of any trace."""
    if not trace.get_current_span().get_span_context().is_valid:
        return None
    here = scope.current()
    named = {semconv.QUEUE_OPERATION: operation, semconv.QUEUE_PARTITION: partition}
    return Recording(
        semconv.SPAN_QUEUE + operation,
        {**named, semconv.QUEUE_KEYS: keys, semconv.STEP: here.step},
        scope=here,
        duration=(semconv.QUEUE_DURATION, named),
    )
