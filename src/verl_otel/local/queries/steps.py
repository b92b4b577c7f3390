"""Which phase takes the step: seconds of each phase by step, and the rest that no phase explains."""

from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.reading import MILLISECOND, SECOND, Cursor, ParameterError, Row, row, rows

BINS: Final = 400
MOST_BINS: Final = 100_000

_RANGE: Final = """
    SELECT min(step) AS first, max(step) AS last, count(DISTINCT step) AS steps FROM spans
    WHERE name = $name AND step IS NOT NULL AND step >= $from AND step <= $to
"""

# Of a step that two attempts made the later one counts. A phase within another is part of it: only outermost ones are
# added, and what two of them cover at the same time is explained once.
_PHASES: Final = """
    WITH roots AS MATERIALIZED (
        SELECT step, arg_max(trace, start) AS trace, max(start) AS start, arg_max("end", start) AS "end"
        FROM spans WHERE name = $root AND step >= $from AND step <= $to GROUP BY step
    ),
    timers AS MATERIALIZED (
        SELECT spans.trace, span, parent, phase, roots.step,
            greatest(spans.start, roots.start) AS start, least(spans."end", roots."end") AS "end"
        FROM spans JOIN roots USING (trace)
        WHERE starts_with(name, $prefix) AND phase IS NOT NULL AND phase <> $whole
    ),
    outermost AS (
        SELECT * FROM timers ANTI JOIN (SELECT trace, span AS parent FROM timers) USING (trace, parent)
    ),
    reached AS (
        SELECT step, phase, start, "end",
            max("end") OVER (PARTITION BY step ORDER BY start, "end" DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM outermost WHERE "end" > start
    ),
    bins AS (
        SELECT (step - $from) // $width AS bin, phase, sum("end" - start) AS spent,
            sum(greatest(0, "end" - greatest(start, coalesce(before, start)))) AS explained
        FROM reached GROUP BY ALL
    )
    SELECT bin, phase, spent, explained FROM bins
"""
_TOTALS: Final = """
    WITH roots AS (
        SELECT step, arg_max(trace, start) AS trace, max(start) AS start, arg_max("end", start) AS "end"
        FROM spans WHERE name = $root AND step >= $from AND step <= $to GROUP BY step
    )
    SELECT (step - $from) // $width AS bin, sum("end" - start) AS total, min(start) AS start, max("end") AS "end",
        arg_max(trace, "end" - start) AS trace
    FROM roots GROUP BY bin
"""
_SCALARS: Final = """
    SELECT step, key, arg_max(value, time) AS value, max(time) AS time
    FROM scalars WHERE starts_with(key, $prefix) AND step >= $from AND step <= $to GROUP BY step, key
"""
_TIMINGS: Final = "timing_s/"
_WHOLE: Final = "step"
_ANY: Final = (-(1 << 31), (1 << 31) - 1)


def steps(cursor: Cursor, begin: int | None = None, end: int | None = None, bins: int = BINS) -> dict[str, Any]:
    """Of the steps from `begin` to `end`, both included, in at most `bins` columns of equal width.

    Of several steps times are added; `trace` is that of the longest. Raises `ParameterError`.
    """
    if not 1 <= bins <= MOST_BINS:
        raise ParameterError(f"bins is {bins}: it may be 1 to {MOST_BINS}")
    asked = {"from": _ANY[0] if begin is None else begin, "to": _ANY[1] if end is None else end}
    there = row(cursor, _RANGE, {**asked, "name": semconv.SPAN_STEP}) or {}
    if not there.get("steps"):
        return _from_scalars(cursor, asked, bins)
    first, last = there["first"], there["last"]
    width = -(-(last - first + 1) // bins)
    place = {"root": semconv.SPAN_STEP, "from": first, "to": last, "width": width}
    totals = {one["bin"]: one for one in rows(cursor, _TOTALS, place)}
    found = rows(cursor, _PHASES, {**place, "prefix": semconv.SPAN_PHASE, "whole": _WHOLE})
    return _shaped(totals, found, first, width)


def _shaped(totals: dict[int, Row], found: list[Row], first: int, width: int) -> dict[str, Any]:
    """Columns of what SQL found; a phase that a column has none of is None there, not 0."""
    order = sorted(totals)
    places = {number: place for place, number in enumerate(order)}
    phases: dict[str, list[float | None]] = {}
    explained = dict.fromkeys(order, 0.0)
    for one in found:
        column = phases.setdefault(one["phase"], [None] * len(order))
        column[places[one["bin"]]] = one["spent"] / SECOND
        explained[one["bin"]] += one["explained"]
    lengths = {phase: sum(one or 0 for one in values) for phase, values in phases.items()}
    return {
        "steps": [first + number * width for number in order],
        "width": width,
        "phases": {phase: phases[phase] for phase in sorted(phases, key=lambda one: -lengths[one])},
        "total": [totals[number]["total"] / SECOND for number in order],
        "rest": [max(0.0, totals[number]["total"] - explained[number]) / SECOND for number in order],
        "start": [_ms(totals[number]["start"]) for number in order],
        "end": [_ms(totals[number]["end"]) for number in order],
        "trace": [totals[number]["trace"] for number in order],
    }


def _ms(time: int | None) -> float | None:
    return None if time is None else time / MILLISECOND


def _from_scalars(cursor: Cursor, asked: Row, bins: int) -> dict[str, Any]:
    """Where no step was traced: verl's own timings. They say nothing of what lies within what, so the rest is of the
    step's own timer, and may be too small."""
    found = rows(cursor, _SCALARS, {**asked, "prefix": _TIMINGS})
    if not found:
        return _shaped({}, [], 0, 1)
    first, last = min(one["step"] for one in found), max(one["step"] for one in found)
    width = -(-(last - first + 1) // bins)
    totals: dict[int, Row] = {}
    spent: dict[tuple[int, str], float] = {}
    for one in found:
        number, phase = (one["step"] - first) // width, one["key"].removeprefix(_TIMINGS)
        total = totals.setdefault(number, {"total": 0.0, "start": None, "end": None, "trace": None})
        total["end"] = max(total["end"] or 0, one["time"])
        if phase == _WHOLE:
            total["total"] += one["value"] * SECOND
        elif "/" not in phase:
            spent[number, phase] = spent.get((number, phase), 0.0) + one["value"] * SECOND
    shaped = [{"bin": bin_, "phase": phase, "spent": ns, "explained": ns} for (bin_, phase), ns in spent.items()]
    return _shaped(totals, shaped, first, width)
