"""What is open now, since when, and how long the like takes."""

from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.metrics import newest
from verl_otel.local.queries.reading import SECOND, Cursor, Row, path, rows

ALIVE: Final = 60
"""Seconds after which a process that said nothing is no longer taken to go on with what it had open."""
PATIENCE: Final = 600.0
"""Seconds below which nothing is stuck, as the alert has it."""
FACTOR: Final = 3.0
MOST: Final = 64
_ROUND: Final = SECOND
"""Points of one export are no further apart."""

# Told at every export by every process, whatever it does.
_ALWAYS: Final = semconv.TELEMETRY_QUEUE.name

_USUAL: Final = """
    SELECT name, median("end" - start) / 1e9 AS median_s, quantile_cont("end" - start, 0.95) / 1e9 AS p95_s
    FROM spans WHERE list_contains($names, name) AND NOT error GROUP BY name
"""
_STUCK: Final = """
    SELECT attributes ->> $phase AS phase, attributes ->> $method AS method, max(time) AS time
    FROM events WHERE name = $name GROUP BY ALL
"""


def open_phases(cursor: Cursor, now: int) -> list[Row]:
    """Phases and worker calls that were open when their process last told, in ns; of equal calls the oldest one."""
    oldest: dict[tuple[str, str | None], Row] = {}
    for one in _told(cursor, now):
        key = one["name"], one["role"]
        if key not in oldest or one["open_s"] > oldest[key]["open_s"]:
            oldest[key] = one
    found = sorted(oldest.values(), key=lambda one: -one["open_s"])[:MOST]
    usual = {one["name"]: one for one in rows(cursor, _USUAL, {"names": [one["span"] for one in found]})}
    told = _told_stuck(cursor)
    return [_answer(one, usual.get(one["span"], {}), told.get(one["name"], 0), now) for one in found]


def _told(cursor: Cursor, now: int) -> list[Row]:
    """What is open by each process's last export; a process that has nothing open tells nothing of it."""
    exported: dict[int, int] = {}
    for one in newest(cursor, _ALWAYS, now):
        exported[one["process"]] = max(one["time"], exported.get(one["process"], 0))
    found = []
    for one in newest(cursor, semconv.OPEN_DURATION.name, now):
        if one["time"] + _ROUND < exported.get(one["process"], now - ALIVE * SECOND):
            continue
        since_told = (now - one["time"]) / SECOND
        phase, method = one["attributes"].get(semconv.PHASE), one["attributes"].get(semconv.WORKER_METHOD)
        name = method or phase or "work"
        found.append(
            {
                "name": name,
                "span": (semconv.SPAN_WORKER if method else semconv.SPAN_PHASE) + name,
                "role": one["attributes"].get(semconv.ROLE),
                "rank": one["attributes"].get(semconv.RANK),
                "open_s": one["value"] + (since_told if since_told <= ALIVE else 0.0),
            }
        )
    return found


def _told_stuck(cursor: Cursor) -> dict[str, int]:
    asked = {
        "name": semconv.EVENT_STUCK,
        "phase": path(semconv.PHASE),
        "method": path(semconv.WORKER_METHOD),
    }
    return {one["method"] or one["phase"] or "work": one["time"] for one in rows(cursor, _STUCK, asked)}


def _answer(one: Row, usual: Row, told_stuck: int, now: int) -> dict[str, Any]:
    p95 = usual.get("p95_s")
    slow = one["open_s"] > PATIENCE and (p95 is None or one["open_s"] > FACTOR * p95)
    since = now - one["open_s"] * SECOND
    return {
        "name": one["name"],
        "role": one["role"],
        "rank": one["rank"],
        "open_s": one["open_s"],
        "median_s": usual.get("median_s"),
        "p95_s": p95,
        "stuck": slow or told_stuck > since,
    }
