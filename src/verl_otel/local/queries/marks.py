"""What happened, to be marked on curves: checkpoints, restarts, values that are no number, errors, the end."""

from typing import Any, Final

from opentelemetry.semconv.attributes import exception_attributes

from verl_otel import semconv
from verl_otel.local.queries.reading import MILLISECOND, Cursor, Row, path, rows

MOST: Final = 500
"""Of each kind."""
_CHECKPOINT: Final = "save_checkpoint"
_SYNC: Final = "update_weights"

_PHASES: Final = """
    SELECT "end" AS time, step, ("end" - start) / 1e9 AS seconds FROM spans
    WHERE name = $name AND NOT error ORDER BY "end" DESC LIMIT $most
"""
_ERRORS: Final = """
    SELECT "end" AS time, step, name, message FROM spans
    WHERE error AND (phase IS NOT NULL OR name = $step) ORDER BY "end" LIMIT $most
"""
_EVENTS: Final = """
    SELECT time, name, (attributes ->> $step)::INTEGER AS step, attributes ->> $phase AS phase,
        attributes ->> $resumed AS resumed, attributes ->> $tool AS tool, attributes ->> $outcome AS outcome,
        attributes ->> $type AS type, attributes ->> $killer AS killer
    FROM events WHERE list_contains($names, name) ORDER BY time DESC LIMIT $most
"""
_NONFINITE: Final = """
    SELECT min(time) AS time, arg_min(step, time) AS step, key, count(*) AS times
    FROM scalars WHERE NOT isfinite(value) GROUP BY key ORDER BY time LIMIT $most
"""
_SIZE: Final = "SELECT count(*) FILTER (name = $sync) AS syncs, count(*) FILTER (name = $step) AS steps FROM spans"

_KINDS: Final = {
    semconv.EVENT_RUN_RESUME: "restart",
    semconv.EVENT_RUN_END: "end",
    semconv.EVENT_STUCK: "stuck",
    semconv.EVENT_PROFILE: "profile",
    semconv.EVENT_OOM_KILL: "oom",
}


def marks(cursor: Cursor) -> dict[str, Any]:
    """All of them, the earliest first."""
    found = [*_checkpoints(cursor), *_syncs(cursor), *_errors(cursor), *_events(cursor), *_nonfinite(cursor)]
    return {"marks": sorted(found, key=lambda one: one["time"])}


def _mark(found: Row, kind: str, label: str) -> Row:
    return {"time": found["time"] / MILLISECOND, "step": found["step"], "kind": kind, "label": label}


def _checkpoints(cursor: Cursor) -> list[Row]:
    found = rows(cursor, _PHASES, {"name": semconv.SPAN_PHASE + _CHECKPOINT, "most": MOST})
    return [_mark(one, "checkpoint", f"checkpoint, {one['seconds']:.1f} s") for one in found]


def _syncs(cursor: Cursor) -> list[Row]:
    """New weights, where they come less often than steps: at every step a mark says nothing."""
    name = semconv.SPAN_PHASE + _SYNC
    size = rows(cursor, _SIZE, {"sync": name, "step": semconv.SPAN_STEP})[0]
    if 2 * size["syncs"] > size["steps"]:
        return []
    found = rows(cursor, _PHASES, {"name": name, "most": MOST})
    return [_mark(one, "weights", f"new weights, {one['seconds']:.1f} s") for one in found]


def _errors(cursor: Cursor) -> list[Row]:
    found = rows(cursor, _ERRORS, {"step": semconv.SPAN_STEP, "most": MOST})
    return [_mark(one, "error", f"{one['name']}: {one['message'] or 'failed'}") for one in found]


def _events(cursor: Cursor) -> list[Row]:
    asked = {
        "names": list(_KINDS),
        "most": MOST,
        "step": path(semconv.STEP),
        "phase": path(semconv.PHASE),
        "resumed": path(semconv.RUN_RESUMED_STEP),
        "tool": path(semconv.PROFILER_TOOL),
        "outcome": path(semconv.RUN_OUTCOME),
        "type": path(exception_attributes.EXCEPTION_TYPE),
        "killer": path(semconv.OOM_KILLER),
    }
    return [_mark(one, _KINDS[one["name"]], _label(one)) for one in rows(cursor, _EVENTS, asked)]


def _label(event: Row) -> str:
    if event["name"] == semconv.EVENT_RUN_RESUME:
        return f"resumed from step {event['resumed']}"
    if event["name"] == semconv.EVENT_RUN_END:
        return f"{event['outcome'] or 'ended'}{': ' + event['type'] if event['type'] else ''}"
    if event["name"] == semconv.EVENT_STUCK:
        return f"{event['phase'] or 'work'} is stuck"
    if event["name"] == semconv.EVENT_PROFILE:
        return f"profiled by {event['tool'] or 'a profiler'}"
    return f"a process was killed for memory by {event['killer'] or 'the host'}"


def _nonfinite(cursor: Cursor) -> list[Row]:
    found = rows(cursor, _NONFINITE, {"most": MOST})
    return [_mark(one, "nan", f"{one['key']} is no number, {one['times']} times") for one in found]
