"""Events: log records with a name, as OpenTelemetry's logs have them now, or the attribute `event.name` before."""

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
        kept = {key: value for key, value in attributes.items() if value is not None}
        current.event_logger.emit(_record(current, name, kept, severity))


def _record(current: "Runtime", name: str, attributes: dict[str, Any], severity: SeverityNumber) -> Any:
    now = time_ns()
    common: dict[str, Any] = {
        "timestamp": now,
        "observed_timestamp": now,
        "severity_number": severity,
        "severity_text": severity.name,
        "attributes": attributes,
    }
    import opentelemetry.sdk._logs

    older = getattr(opentelemetry.sdk._logs, "LogRecord", None)  # noqa: SLF001 - the SDK's name for its logs package
    if older is None:
        return LogRecord(**common, event_name=name)
    # Before SDK 1.39 the record must be the SDK's own and knows its resource; a name it may not know is an attribute.
    common["resource"] = current.resource
    if "event_name" in signature(older).parameters:
        return older(**common, event_name=name)
    span = get_current_span().get_span_context()
    common |= {"trace_id": span.trace_id, "span_id": span.span_id, "trace_flags": span.trace_flags}
    return older(**{**common, "attributes": {**attributes, semconv.EVENT_NAME: name}})
