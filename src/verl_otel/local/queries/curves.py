"""Curves: verl's own scalars by step or time, reduced so that a line of one pixel's width looks the same."""

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.reading import Cursor, ParameterError, Row, finite, path, row, rows

AXES: Final = ("step", "time", "elapsed")
MOST_KEYS: Final = 64
MOST_NONFINITE: Final = 1000
"""Of a curve, each with its place; all are counted."""
MOST_COLUMNS: Final = 10_000

_KEYS: Final = """
    WITH units AS (
        SELECT key, any_value(unit) AS unit, any_value(attributes ->> $statistic) AS statistic
        FROM series WHERE key IS NOT NULL GROUP BY key
    )
    SELECT key, units.unit, units.statistic, count(*) AS points, count(*) FILTER (NOT isfinite(value)) AS nonfinite,
        min(step) AS first_step, max(step) AS last_step
    FROM scalars LEFT JOIN units USING (key)
    GROUP BY ALL ORDER BY key
"""

# A resumed attempt logs some steps again: the later value counts.
# M4 (Jugel et al., VLDB 2014): of each column of pixels the first, last, least and greatest, each with its own x. With
# few points each is a column of its own, as is what is no number: DuckDB's max takes NaN for the greatest.
_CURVES: Final = """
    WITH placed AS (
        SELECT key, CASE $axis WHEN 'step' THEN step WHEN 'time' THEN time / 1e6 ELSE (time - $origin) / 1e9 END AS x,
            arg_max(value, time) AS y
        FROM scalars WHERE list_contains($keys, key) GROUP BY key, x
    ),
    within AS (
        SELECT key, x, y, count(*) OVER (PARTITION BY key) AS points FROM placed WHERE x >= $from AND x <= $to
    ),
    columns AS (
        SELECT key, any_value(points) AS points, min(x) AS first_x, arg_min(y, x) AS first_y, max(x) AS last_x,
            arg_max(y, x) AS last_y, arg_min(x, y) AS least_x, min(y) AS least_y, arg_max(x, y) AS most_x,
            max(y) AS most_y
        FROM within
        GROUP BY key, isfinite(y), CASE WHEN points <= $most OR NOT isfinite(y) THEN x
            ELSE least(floor((x - $from) * $width / greatest($to - $from, 1e-9)), $width - 1) END
    )
    SELECT DISTINCT key, unnest([first_x, last_x, least_x, most_x]) AS x,
        unnest([first_y, last_y, least_y, most_y]) AS y, points
    FROM columns ORDER BY key, x
"""

_SPAN: Final = """
    SELECT min(CASE $axis WHEN 'step' THEN step WHEN 'time' THEN time / 1e6 ELSE (time - $origin) / 1e9 END) AS least,
        max(CASE $axis WHEN 'step' THEN step WHEN 'time' THEN time / 1e6 ELSE (time - $origin) / 1e9 END) AS most
    FROM scalars WHERE list_contains($keys, key)
"""
_ORIGIN: Final = "SELECT min(time) AS time FROM scalars"
_UNITS: Final = "SELECT key, any_value(unit) AS unit FROM series WHERE list_contains($keys, key) GROUP BY key"


def keys(cursor: Cursor) -> dict[str, Any]:
    """Every key that was logged, with its family: what it has in common with its mean, max, min."""
    return {"keys": [_key(found) for found in rows(cursor, _KEYS, {"statistic": path(semconv.STATISTIC)})]}


def _key(found: Row) -> Row:
    key, statistic = found["key"], found["statistic"]
    ending = f"/{statistic}"
    family = key[: -len(ending)] if statistic and key.endswith(ending) else key
    return {**found, "family": family, "statistic": statistic, "unit": found["unit"] or ""}


def curves(
    cursor: Cursor,
    wanted: Sequence[str],
    axis: str = "step",
    begin: float | None = None,
    end: float | None = None,
    width: int = 1200,
) -> dict[str, Any]:
    """Curves of keys between two places on the axis: steps, ms, or seconds since the first value.

    `width`: in pixels. Raises `ParameterError`.
    """
    if axis not in AXES:
        raise ParameterError(f"x is {axis!r}: it may be {', '.join(AXES)}")
    if not 1 <= width <= MOST_COLUMNS:
        raise ParameterError(f"width is {width}: it may be 1 to {MOST_COLUMNS}")
    if len(wanted) > MOST_KEYS:
        raise ParameterError(f"{len(wanted)} keys: ask for at most {MOST_KEYS} at once")
    asked = {"keys": list(wanted)}
    units = {one["key"]: one["unit"] for one in rows(cursor, _UNITS, asked)}
    place = {"axis": axis, "origin": (row(cursor, _ORIGIN) or {}).get("time") or 0}
    whole = row(cursor, _SPAN, {**place, **asked}) or {}
    place["from"] = float(whole.get("least") or 0) if begin is None else begin
    place["to"] = float(whole.get("most") or 0) if end is None else end
    found: dict[str, list[Row]] = defaultdict(list)
    for one in rows(cursor, _CURVES, {**place, **asked, "width": width, "most": 4 * width}):
        found[one["key"]].append(one)
    return {"x": axis, "curves": [_curve(key, units.get(key) or "", found[key], width) for key in wanted]}


def _curve(key: str, unit: str, found: list[Row], width: int) -> Row:
    points = found[0]["points"] if found else 0
    bad = [one for one in found if not math.isfinite(one["y"])]
    left_out = {one["x"] for one in bad[MOST_NONFINITE:]}
    shown = [one for one in found if one["x"] not in left_out]
    return {
        "key": key,
        "unit": unit,
        "xs": [one["x"] for one in shown],
        # A value that is no number is a gap in the line, with a mark of its own.
        "ys": [finite(one["y"]) for one in shown],
        "reduced": points > 4 * width,
        "points": points,
        "nonfinite": [[one["x"], _word(one["y"])] for one in bad[:MOST_NONFINITE]],
    }


def _word(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


_LOGGED: Final = """
    SELECT step, time, key, value FROM scalars WHERE list_contains($keys, key) ORDER BY time, step, key
"""


def table(cursor: Cursor, wanted: Sequence[str]) -> Iterator[str]:
    """CSV of the keys, in pieces: a line for each time something was logged, empty where a key was not.

    Times are ms since the epoch; a step that was logged by two attempts has two lines.
    """
    yield _line(["step", "time", *wanted])
    places = {key: place for place, key in enumerate(wanted)}
    found = cursor.execute(_LOGGED, {"keys": list(wanted)})
    last: tuple[int, int] | None = None
    values: list[str] = []
    while chunk := found.fetchmany(10_000):
        for step, time, key, value in chunk:
            if (step, time) != last:
                if last is not None:
                    yield _line([last[0], last[1] / 1e6, *values])
                last, values = (step, time), [""] * len(wanted)
            values[places[key]] = repr(value) if math.isfinite(value) else _word(value)
    if last is not None:
        yield _line([last[0], last[1] / 1e6, *values])


def _line(values: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
