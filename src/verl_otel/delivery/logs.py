"""The log-record processor: hands records over, and does nothing else in the thread that emitted them."""

from typing import Any

import opentelemetry.sdk._logs
from opentelemetry.sdk._logs import LogRecordProcessor

from verl_otel.delivery.handoff import Handoff

_Readable: Any = getattr(opentelemetry.sdk._logs, "ReadableLogRecord", None)  # noqa: SLF001 - the package's name
"""Since SDK 1.38; before, the processor is given a pair that needs no more."""


class HandoffLogRecordProcessor(LogRecordProcessor):
    """Leaves events in one `Handoff` and messages in another: a flood of messages must not cost an event.

    An event has no body. The SDK calls `on_emit` since 1.36, `emit` before.
    """

    def __init__(self, events: Handoff, messages: Handoff) -> None:
        self._events, self._messages = events, messages

    def on_emit(self, log_record: Any) -> None:
        """Keep a record, as what exporters are given: with its resource and scope, and no way to change it."""
        handoff = self._events if log_record.log_record.body is None else self._messages
        if _Readable is not None:
            log_record = _Readable(
                log_record=log_record.log_record,
                resource=log_record.resource,
                instrumentation_scope=log_record.instrumentation_scope,
                limits=log_record.limits,
            )
        handoff.put(log_record)

    emit = on_emit

    def shutdown(self) -> None:
        """Nothing is held here."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held here; flushing is the pipeline's."""
        return True
