"""Log records: events, which have a name (the attribute `event.name` in an older SDK), and messages with a text."""

from collections.abc import Mapping
from inspect import signature
from time import time_ns
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.trace import get_current_span

from verl_otel import runtime, semconv
from verl_otel.guard import guard

if TYPE_CHECKING:
    from verl_otel.sdk import Runtime


def emit(name: str, attributes: Mapping[str, Any], severity: SeverityNumber = SeverityNumber.INFO) -> None:
    """Emit an event in the current span's context. Attributes that are None are left out; never raises."""
    with guard(f"event {name}"):
        if (current := runtime.current()).pipeline.log_processor is None:
            return
        made = _record(current, attributes, severity, time_ns(), name=name)
        current.event_logger.emit(made)


def message(text: str, attributes: Mapping[str, Any], severity: SeverityNumber, time: int) -> None:
    """Emit a message of `time` (ns) in the current span's context. Attributes that are None are left out.

    Starts nothing: what is logged while the runtime is being made would wait for it in the thread that makes it.
    """
    if (current := runtime.started()) is not None and current.pipeline.log_processor is not None:
        current.event_logger.emit(_record(current, attributes, severity, time, text=text))


def _record(
    current: "Runtime",
    attributes: Mapping[str, Any],
    severity: SeverityNumber,
    time: int,
    *,
    name: str | None = None,
    text: str | None = None,
) -> Any:
    kept = {key: value for key, value in attributes.items() if value is not None}
    common: dict[str, Any] = {
        "timestamp": time,
        "observed_timestamp": time_ns(),
        "severity_number": severity,
        "severity_text": severity.name,
        "attributes": kept,
        "body": text,
    }
    import opentelemetry.sdk._logs

    older = getattr(opentelemetry.sdk._logs, "LogRecord", None)  # noqa: SLF001 - the SDK's name for its logs package
    # A logger that takes the parts of a record takes the API's, too.
    if older is None or "event_name" in signature(current.event_logger.emit).parameters:
        return LogRecord(**common, event_name=name)
    # Before SDK 1.37 the record must be the SDK's own and knows its resource; a name it may not know is an attribute.
    common["resource"] = current.resource
    if "event_name" in signature(older).parameters:
        return older(**common, event_name=name)
    span = get_current_span().get_span_context()
    common |= {"trace_id": span.trace_id, "span_id": span.span_id, "trace_flags": span.trace_flags}
    named = {} if name is None else {semconv.EVENT_NAME: name}
    return older(**{**common, "attributes": {**kept, **named}})
