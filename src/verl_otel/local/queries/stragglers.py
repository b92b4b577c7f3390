"""Which rank is slow: seconds of each rank in each phase, over the median of its step."""

from collections import defaultdict
from statistics import median
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.reading import Cursor, NotThereError, Row, rows

WORST: Final = 5
COLUMNS: Final = 400
"""Of the heatmap; more steps are averaged."""

# A rank that worked in several pieces is slow by their sum. Ranks are unique only within their role.
_WORK: Final = """
    WITH work AS MATERIALIZED (
        SELECT phase, role, step, rank, any_value(process) AS process, sum("end" - start) / 1e9 AS seconds
        FROM spans
        WHERE starts_with(name, $prefix) AND phase IS NOT NULL AND rank IS NOT NULL AND step >= $from AND step <= $to
        GROUP BY phase, role, step, rank
    ),
    usual AS (
        SELECT phase, role, step, median(seconds) AS middle, max(seconds) AS most, count(*) AS ranks
        FROM work GROUP BY ALL HAVING count(*) > 1
    )
"""
_RANKS: Final = f"""{_WORK}
    SELECT phase, work.role, work.rank, avg(seconds - middle) AS over_s, median(middle) AS middle,
        count(*) FILTER (seconds = most) AS steps, any_value(host) AS host
    FROM work JOIN usual USING (phase, role, step) LEFT JOIN processes ON processes.process = work.process
    GROUP BY phase, work.role, work.rank ORDER BY phase, work.role, work.rank
"""  # noqa: S608 - of constants
_HEAT: Final = f"""{_WORK},
    spread AS (SELECT min(step) AS first, (max(step) - min(step) + $columns) // $columns AS width FROM work
        WHERE phase = $phase AND role IS NOT DISTINCT FROM $role)
    SELECT rank, first + (step - first) // width * width AS step, avg(seconds - middle) AS over_s
    FROM work JOIN usual USING (phase, role, step), spread
    WHERE phase = $phase AND role IS NOT DISTINCT FROM $role
    GROUP BY ALL ORDER BY ALL
"""  # noqa: S608 - of constants
_ANY: Final = (-(1 << 31), (1 << 31) - 1)


def stragglers(
    cursor: Cursor, begin: int | None = None, end: int | None = None, phase: str | None = None
) -> dict[str, Any]:
    """Of the steps from `begin` to `end`; the heatmap of `phase`, default the one whose slowest rank costs most.

    Raises `NotThereError` for a phase that no two ranks worked in.
    """
    asked = {
        "prefix": semconv.SPAN_WORKER,
        "from": _ANY[0] if begin is None else begin,
        "to": _ANY[1] if end is None else end,
    }
    found: dict[tuple[str, str | None], list[Row]] = defaultdict(list)
    for one in rows(cursor, _RANKS, asked):
        found[one["phase"], one["role"]].append(one)
    names = _names(list(found))
    phases = [_phase(names[key], ranks) for key, ranks in found.items()]
    phases.sort(key=lambda one: -max(over or 0.0 for over in one["over_s"]))
    if not phases:
        return {"phases": [], "heat": None}
    wanted = phase or phases[0]["phase"]
    chosen = next((key for key, name in names.items() if name == wanted), None)
    if chosen is None:
        raise NotThereError(f"no two ranks worked in a phase {wanted!r}")
    return {"phases": phases, "heat": _heat(cursor, asked, chosen, wanted)}


def _names(keys: list[tuple[str, str | None]]) -> dict[tuple[str, str | None], str]:
    """A phase's name; with its role, where several roles worked in it."""
    phases = [phase for phase, _ in keys]
    return {(phase, role): phase if phases.count(phase) == 1 else f"{phase} ({role})" for phase, role in keys}


def _phase(name: str, ranks: list[Row]) -> Row:
    worst = sorted(ranks, key=lambda one: -one["over_s"])[:WORST]
    return {
        "phase": name,
        "ranks": [one["rank"] for one in ranks],
        "hosts": [one["host"] for one in ranks],
        "median_s": median(one["middle"] for one in ranks),
        "over_s": [one["over_s"] for one in ranks],
        "worst": [
            {"rank": one["rank"], "host": one["host"], "over_s": one["over_s"], "steps": one["steps"]} for one in worst
        ],
    }


def _heat(cursor: Cursor, asked: Row, chosen: tuple[str, str | None], name: str) -> Row:
    found = rows(cursor, _HEAT, {**asked, "phase": chosen[0], "role": chosen[1], "columns": COLUMNS})
    ranks, steps = sorted({one["rank"] for one in found}), sorted({one["step"] for one in found})
    row_of, column_of = ({value: place for place, value in enumerate(values)} for values in (ranks, steps))
    values: list[list[float | None]] = [[None] * len(steps) for _ in ranks]
    for one in found:
        values[row_of[one["rank"]]][column_of[one["step"]]] = one["over_s"]
    return {"phase": name, "steps": steps, "ranks": ranks, "values": values}
