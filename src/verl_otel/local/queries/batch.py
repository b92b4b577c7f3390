"""Why does the rollout have a tail? The trajectories that a step trained on, on the wall clock, with what each did."""

from collections import defaultdict
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.reading import MILLISECOND, SECOND, Cursor, ParameterError, Row, number, path, row, rows

MOST: Final = 4096
SORTS: Final = ("end", "start", "seconds", "reward", "turns", "staleness")
MOST_PARTS: Final = 64
"""Of a trajectory; later ones are left out."""

# The phase that made the batch names it, and is linked to it, but for a bounded number of trajectories.
_CONSUMER: Final = """
    SELECT "end", links, (attributes ->> $count)::INTEGER AS taken,
        [regexp_replace(one, '_[0-9]+$', '') FOR one IN (attributes -> $consumed)::VARCHAR[]] AS named
    FROM spans
    WHERE step = $step AND (attributes ->> $count) IS NOT NULL AND NOT coalesce(validation, false)
        AND coalesce(phase, '') <> $testing AND name <> $validate
    ORDER BY start DESC LIMIT 1
"""
_ROWS: Final = """
    WITH linked AS (
        SELECT DISTINCT one ->> 'trace' AS trace FROM (SELECT unnest($links::JSON::JSON[]) AS one)
    ),
    found AS (
        SELECT t.*, $step - 1 - weights_oldest AS staleness,
            trace IN (FROM linked) OR list_contains($named::VARCHAR[], concat(uid, '_', session)) AS taken
        FROM trajectories t WHERE NOT coalesce(validation, false)
    ),
    chosen AS (
        SELECT * FROM found
        WHERE taken OR (step = $step AND (SELECT count(*) FILTER (taken) FROM found) < $count)
    )
    SELECT *, count(*) OVER () AS total FROM chosen
    ORDER BY CASE $sort WHEN 'end' THEN -"end"::DOUBLE WHEN 'start' THEN start::DOUBLE
        WHEN 'seconds' THEN start::DOUBLE - "end" WHEN 'reward' THEN reward WHEN 'turns' THEN -turns
        ELSE -staleness END NULLS LAST, start, trace
    LIMIT $limit
"""
_PARTS: Final = """
    SELECT trace, span, parent, name, start, "end", error, attributes ->> $balancer AS balancer,
        attributes ->> $parked AS parked, attributes ->> $queued AS queued
    FROM spans WHERE list_contains($traces, trace)
        AND (name IN ($chat, $generate, $reward, $tool) OR starts_with(name, $tool || ' '))
    ORDER BY start
"""


def batch(cursor: Cursor, step: int, sort: str = "end", limit: int = 1024) -> dict[str, Any]:
    """Of a step; the last, longest, worst first. Raises `ParameterError`.

    Where the batch has more trajectories than its span names, those that were dispatched for the step are taken.
    """
    if sort not in SORTS:
        raise ParameterError(f"sort is {sort!r}: it may be {', '.join(SORTS)}")
    if not 0 <= limit <= MOST:
        raise ParameterError(f"limit is {limit}: it may be 0 to {MOST}")
    consumer = row(
        cursor,
        _CONSUMER,
        {
            "step": step,
            "count": path(semconv.ROLLOUT_CONSUMED_COUNT),
            "consumed": path(semconv.ROLLOUT_CONSUMED),
            "testing": "testing",
            "validate": semconv.SPAN_VALIDATE,
        },
    )
    taken = consumer or {"links": None, "named": None, "taken": None, "end": None}
    asked = {
        "step": step,
        "links": taken["links"] or "[]",
        "named": taken["named"] or [],
        "count": taken["taken"] or 1 << 30,
        "sort": sort,
        "limit": limit,
    }
    found = rows(cursor, _ROWS, asked)
    parts = _parts(cursor, [one["trace"] for one in found])
    return {
        "step": step,
        "total": found[0]["total"] if found else 0,
        "consumed": taken["end"] / MILLISECOND if taken["end"] else None,
        "rows": [_answer(one, parts[one["trace"]]) for one in found],
    }


def _answer(one: Row, parts: list[Row]) -> Row:
    kept = ("trace", "span", "uid", "session", "reward", "turns", "staleness", "outcome")
    return {
        **{name: one[name] for name in kept},
        "start": one["start"] / MILLISECOND,
        "end": one["end"] / MILLISECOND,
        "tokens": one["response_tokens"],
        "parts": parts[:MOST_PARTS],
    }


def _parts(cursor: Cursor, traces: list[str]) -> dict[str, list[Row]]:
    asked = {
        "traces": traces,
        "balancer": path(semconv.BALANCER_WAIT),
        "parked": path(semconv.ENGINE_PARKED),
        "queued": path(semconv.ENGINE_QUEUED),
        "chat": semconv.SPAN_GENERATE_CLIENT,
        "generate": semconv.SPAN_GENERATE_SERVER,
        "reward": semconv.SPAN_REWARD,
        "tool": semconv.SPAN_TOOL,
    }
    by_trace: dict[str, list[Row]] = defaultdict(list)
    for one in rows(cursor, _PARTS, asked):
        by_trace[one["trace"]].append(one)
    return defaultdict(list, {trace: _of_trace(spans) for trace, spans in by_trace.items()})


def _of_trace(spans: list[Row]) -> list[Row]:
    served = {one["parent"]: one for one in spans if one["name"] == semconv.SPAN_GENERATE_SERVER}
    parts: list[Row] = []
    for one in spans:
        if one["name"] == semconv.SPAN_GENERATE_CLIENT:
            parts += _model_call(one, served.get(one["span"]))
        elif one["name"] == semconv.SPAN_REWARD:
            parts.append(_part("reward", one["start"], one["end"], one["error"]))
        elif one["name"] != semconv.SPAN_GENERATE_SERVER:
            parts.append(_part("tool", one["start"], one["end"], one["error"]))
    return parts


def _model_call(chat: Row, server: Row | None) -> list[Row]:
    """Until a replica is named and in its queue it waits, at the gate new weights come, the rest the model works."""
    waited = chat["start"] + _ns(chat["balancer"])
    begun = max(chat["start"], min(waited, chat["end"]))
    parts = [_part("queue", chat["start"], begun, False)]
    if server is not None:
        # Of another host: its clock may differ, so what it waited is laid at the beginning of the call.
        for kind, waited_ns in (("gate", _ns(server["parked"])), ("queue", _ns(server["queued"]))):
            until = min(begun + waited_ns, chat["end"])
            parts.append(_part(kind, begun, until, False))
            begun = until
    parts.append(_part("model", begun, chat["end"], chat["error"]))
    return [one for one in parts if one["end"] > one["start"]]


def _ns(seconds: str | None) -> int:
    return int((number(seconds) or 0.0) * SECOND)


def _part(kind: str, start: int, end: int, error: bool) -> Row:
    return {"kind": kind, "start": start / MILLISECOND, "end": end / MILLISECOND, "error": error}
