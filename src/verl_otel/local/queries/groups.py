"""Does the batch carry signal? Trajectories of one prompt are a group; where all rewards are equal, none."""

from typing import Any, Final

from verl_otel.local.queries.reading import Cursor, Row, rows

UNKNOWN: Final = "unknown"
MIXED: Final = "mixed"
ALL_RIGHT: Final = "all right"
ALL_WRONG: Final = "all wrong"

_GROUPS: Final = """
    SELECT uid, list(reward ORDER BY session, start) AS rewards, avg(reward) AS mean,
        max(reward) - min(reward) AS spread, count(*) = count(reward) AS known, min(reward) AS least,
        list(trace ORDER BY session, start) AS traces
    FROM trajectories WHERE step = $step AND NOT coalesce(validation, false) AND uid IS NOT NULL
    GROUP BY uid ORDER BY spread NULLS LAST, mean, uid
"""
_SIGNAL: Final = """
    WITH groups AS (
        SELECT step, uid, min(reward) AS least, max(reward) AS most FROM trajectories
        WHERE step IS NOT NULL AND NOT coalesce(validation, false) AND uid IS NOT NULL
        GROUP BY step, uid HAVING count(*) = count(reward)
    )
    SELECT step, count(*) FILTER (least < most) AS mixed, count(*) FILTER (least = most AND least > 0) AS all_right,
        count(*) FILTER (least = most AND least <= 0) AS all_wrong
    FROM groups GROUP BY step ORDER BY step
"""
# What a trainer that filters groups logs of those it left out.
_FILTERED: Final = """
    SELECT step, max(value) AS filtered FROM scalars
    WHERE contains(key, 'filter_groups') AND (contains(key, 'dropped') OR contains(key, 'filtered')
        OR contains(key, 'evicted')) AND isfinite(value)
    GROUP BY step
"""


def groups(cursor: Cursor, step: int) -> dict[str, Any]:
    """Those of a training step, the ones of least spread first."""
    return {"groups": [_group(one) for one in rows(cursor, _GROUPS, {"step": step})]}


def _group(one: Row) -> Row:
    kept = {name: one[name] for name in ("uid", "rewards", "mean", "spread", "traces")}
    return {**kept, "signal": _signal(one)}


def _signal(one: Row) -> str:
    """As `verl.group.signal` has it: all equal is right above 0, wrong else."""
    if not one["known"]:
        return UNKNOWN
    if one["spread"]:
        return MIXED
    return ALL_RIGHT if one["least"] > 0 else ALL_WRONG


def signal(cursor: Cursor) -> dict[str, Any]:
    """Groups of each step by their signal; those with a reward that nobody told are in none."""
    found = rows(cursor, _SIGNAL)
    filtered = {one["step"]: int(one["filtered"]) for one in rows(cursor, _FILTERED)}
    columns = {name: [one[name] for one in found] for name in ("all_wrong", "mixed", "all_right")}
    steps = [one["step"] for one in found]
    return {"steps": steps, **columns, "filtered": [filtered.get(step, 0) for step in steps]}
