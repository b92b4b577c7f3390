"""A transfer of weights: its size on the span of the worker that makes it, and in a counter."""

from opentelemetry import trace

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.telemetry import scope
from verl_otel.telemetry.instruments import count


class Transfer:
    """Begins in the context of the worker's call that it belongs to, and may end elsewhere."""

    def __init__(self) -> None:
        self._span, self._scope = trace.get_current_span(), scope.current()
        self._bytes = 0

    def add(self, size: int) -> None:
        """So many bytes passed."""
        self._bytes += size

    def end(self) -> None:
        """No more will come."""
        size, self._bytes = self._bytes, 0
        with guard("counting weights"):
            self._span.set_attributes({semconv.WEIGHTS_SIZE: size})
            labels = {semconv.ROLE: self._scope.role} if self._scope.role else {}
            count(semconv.WEIGHTS_TRANSFERRED, size, labels)
