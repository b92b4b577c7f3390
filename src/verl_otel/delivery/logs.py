"""The log-record processor: hands records over, and does nothing else in the thread that emitted them."""

from typing import Any

from opentelemetry.sdk._logs import LogRecordProcessor

from verl_otel.delivery.handoff import Handoff


class HandoffLogRecordProcessor(LogRecordProcessor):
    """Leaves log records in a `Handoff`. The SDK calls `on_emit` since 1.36, `emit` before."""

    def __init__(self, handoff: Handoff) -> None:
        self._handoff = handoff

    def on_emit(self, log_record: Any) -> None:
        """Keep a record."""
        self._handoff.put(log_record)

    emit = on_emit

    def shutdown(self) -> None:
        """Nothing is held here."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held here; flushing is the pipeline's."""
        return True
