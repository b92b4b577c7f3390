"""What failed first: how the run ended, and the error that it began with."""

from typing import Any, Final

from opentelemetry.semconv.attributes import exception_attributes

from verl_otel import semconv
from verl_otel.local.queries.reading import MILLISECOND, Cursor, Row, decoded, integer, path, row

_END: Final = "SELECT time, attributes FROM events WHERE name = $name ORDER BY time DESC LIMIT 1"
# What failed before a step that went well was overcome.
_FIRST: Final = """
    WITH good AS (SELECT coalesce(max("end"), 0) AS until FROM spans WHERE name = $step AND NOT error)
    SELECT "end" AS time, coalesce(spans.attributes ->> $kind, 'error') AS type, message, phase, spans.role,
        spans.rank, host, step, trace, span
    FROM good, spans LEFT JOIN processes USING (process)
    WHERE error AND "end" > until AND (phase IS NOT NULL OR starts_with(name, $worker) OR name = $step)
    ORDER BY ("end", -start) LIMIT 1
"""
_LAST_GOOD: Final = """
    SELECT max(step) AS step FROM (SELECT step FROM scalars GROUP BY step HAVING bool_and(isfinite(value)))
"""


def failure(cursor: Cursor) -> dict[str, Any] | None:
    """Of a run that failed; None of one that didn't, or of which no error is known."""
    end = row(cursor, _END, {"name": semconv.EVENT_RUN_END})
    told = decoded(end["attributes"]) if end else {}
    if told.get(semconv.RUN_OUTCOME, "failed") != "failed":
        return None
    asked = {"step": semconv.SPAN_STEP, "worker": semconv.SPAN_WORKER, "kind": path(semconv.ERROR_TYPE)}
    span = row(cursor, _FIRST, asked)
    if end is None and span is None:
        return None
    return _joined(told, end["time"] if end else 0, span or {})


def _joined(told: dict[str, Any], ended: int, span: Row) -> dict[str, Any]:
    """What the driver told of the end counts; a span adds where that was, and is the only witness where it didn't."""
    kind = told.get(exception_attributes.EXCEPTION_TYPE)
    return {
        "time": (span.get("time") or ended) / MILLISECOND,
        "type": kind or _type(span),
        "message": told.get(exception_attributes.EXCEPTION_MESSAGE) or span.get("message"),
        "phase": told.get(semconv.PHASE) or span.get("phase"),
        "role": told.get(semconv.ROLE) or span.get("role"),
        "rank": _first(integer(told.get(semconv.RANK)), span.get("rank")),
        "host": span.get("host"),
        "step": _first(integer(told.get(semconv.STEP)), span.get("step")),
        "trace": span.get("trace"),
        "span": span.get("span"),
    }


def _type(span: Row) -> str:
    """Our spans' status begins with the exception's type."""
    if span.get("type") not in (None, "error"):
        return str(span["type"])
    return str(span.get("message") or "error").partition(":")[0]


def _first(*values: Any) -> Any:
    return next((one for one in values if one is not None), None)


def last_good_step(cursor: Cursor) -> int | None:
    """The last one all of whose scalars are numbers."""
    found = row(cursor, _LAST_GOOD)
    return found["step"] if found else None
