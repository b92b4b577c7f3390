"""Who did what, when: lanes by time, as a matrix of states while spans are narrower than pixels, else as spans."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.lane_filter import chosen
from verl_otel.local.queries.lanes import Lane, lanes, ordered
from verl_otel.local.queries.reading import (
    MILLISECOND,
    Cursor,
    ParameterError,
    Row,
    integer,
    nanoseconds,
    path,
    row,
    rows,
)

MOST_SPANS: Final = 20_000
MOST_ROWS: Final = 1024
MOST_COLUMNS: Final = 5000
WIDE_ENOUGH: Final = 4
"""Pixels that a span has on average where spans are answered."""
FLEET: Final = 64
"""Lanes above which their composition is told."""

UNKNOWN: Final = ""
IDLE: Final = "idle"
ERROR: Final = "error"
_FIXED: Final = (UNKNOWN, IDLE, ERROR)
_MOST_STATES: Final = 180
_MOST_SHADES: Final = 32
_BASE: Final = 32
"""States come from SQL as one character each, from the blank on."""

_ROOTS: Final = (
    semconv.SPAN_STEP,
    semconv.SPAN_INIT,
    semconv.SPAN_VALIDATE,
    semconv.SPAN_WARMUP,
    semconv.SPAN_PHASE + "step",
)
"""What they hold says more than they do: they show where it leaves a gap."""
_WORKS: Final = (semconv.SPAN_REPLICA_BUSY, semconv.SPAN_GENERATE_SERVER)
_GENERATES: Final = "gen"

_EXTENT: Final = 'SELECT min(start) AS first, max("end") AS last FROM spans WHERE lane IS NOT NULL'
_EXTENTS: Final = 'SELECT lane, min(start) AS first, max("end") AS last FROM spans WHERE lane IS NOT NULL GROUP BY lane'
_KINDS: Final = """
    SELECT name, coalesce(phase, '') AS phase, avg("end" - start) AS length FROM spans
    WHERE lane IS NOT NULL AND start < $to AND "end" > $from GROUP BY ALL ORDER BY length DESC
"""

_VERSIONS: Final = """
    SELECT min(version) AS oldest, max(version) AS newest FROM (
        SELECT try_cast(attributes ->> $version AS BIGINT) AS version FROM spans
        WHERE lane IS NOT NULL AND name IN (SELECT unnest($works)) AND start < $to AND "end" > $from
    )
"""

# Of each lane and pixel the state that covers most of it; of equals the one whose spans are shorter, since it lies
# within the other. Weight, state and error are one number, so that the greatest is found without sorting.
_CELLS: Final = """
    WITH kinds AS (SELECT unnest($names) AS name, unnest($phases) AS phase, unnest($states) AS state,
        unnest($weights) AS weight),
    who AS (SELECT unnest($lanes) AS lane, unnest(range(len($lanes))) AS number),
    seen AS (
        SELECT number, weight, error, CASE WHEN $shades > 0 AND spans.name IN (SELECT unnest($works))
            THEN coalesce($shade + (try_cast(attributes ->> $version AS BIGINT) - $oldest) // $each, state)
            ELSE state END AS state, greatest(start - $from, 0) AS start, least("end", $to) - $from AS "end"
        FROM spans JOIN who USING (lane)
        JOIN kinds ON spans.name = kinds.name AND coalesce(spans.phase, '') = kinds.phase
        WHERE start < $to AND "end" > $from
    ),
    pieces AS (
        SELECT *, unnest(range(start // $pixel, (greatest("end", start + 1) - 1) // $pixel + 1)) AS place FROM seen
    ),
    covered AS (
        SELECT number, place, CASE WHEN error THEN $error ELSE state END AS state, bool_or(error) AS failed,
            least(sum(weight * (least("end", (place + 1) * $pixel) - greatest(start, place * $pixel))), $pixel) AS time,
            count(*) AS spans
        FROM pieces GROUP BY ALL
    ),
    cells AS (
        SELECT number, place, sum(spans) AS spans,
            max(CASE WHEN failed THEN (1::BIGINT << 61) ELSE 0 END + time::BIGINT * 256 + state) & 255 AS state
        FROM covered GROUP BY ALL
    ),
    gaps AS (
        SELECT *, place - coalesce(lag(place) OVER (PARTITION BY number ORDER BY place), -1) - 1 AS gap FROM cells
    )
    SELECT number, max(spans) AS spans,
        string_agg(repeat(' ', gap) || chr(($base + state)::INTEGER), '' ORDER BY place) AS cells
    FROM gaps GROUP BY number
"""
_SPANS: Final = """
    WITH who AS (SELECT unnest($lanes) AS lane, unnest(range(len($lanes))) AS number)
    SELECT number, start, "end", name, coalesce(phase, '') AS phase, step, error, trace, span,
        attributes ->> $version AS weights
    FROM spans JOIN who USING (lane) WHERE start < $to AND "end" > $from
    ORDER BY start, "end" DESC LIMIT $most
"""


@dataclass(frozen=True)
class _Window:
    """What is asked for, in ns; `pixel`: ns of a column."""

    begin: int
    end: int
    width: int

    @property
    def pixel(self) -> int:
        return max(1, -(-(self.end - self.begin) // self.width))

    def column(self, time: int) -> int:
        return min(max((time - self.begin) // self.pixel, 0), self.width)


def timeline(
    cursor: Cursor,
    begin: float | None = None,
    end: float | None = None,
    width: int = 1200,
    most: int = MOST_ROWS,
    text: str = "",
    order: str = "name",
    *,
    by_weights: bool = False,
) -> dict[str, Any]:
    """Between two times in ms, default the whole run, in `width` columns and `most` rows; `text` chooses lanes.

    `by_weights`: what a replica generates is told by the version of its weights. Raises `ParameterError`.
    """
    if not 1 <= width <= MOST_COLUMNS:
        raise ParameterError(f"width is {width}: it may be 1 to {MOST_COLUMNS}")
    if not 0 <= most <= MOST_ROWS:
        raise ParameterError(f"rows is {most}: it may be 0 to {MOST_ROWS}")
    whole = row(cursor, _EXTENT) or {}
    window = _Window(
        (whole["first"] or 0) if begin is None else nanoseconds(begin),
        (whole["last"] or 0) if end is None else nanoseconds(end),
        width,
    )
    if window.end < window.begin:
        raise ParameterError("the time asked for ends before it begins")
    everyone = ordered(lanes(cursor, window.begin, window.end, semconv.SPAN_WORKER), "name")
    kinds = _kinds(cursor, window)
    shades = _shades(cursor, window) if by_weights else _Shades()
    states = [*kinds.states, *shades.names]
    painted, densest = _painted(cursor, everyone, kinds, shades, window)
    there = chosen(everyone, text)
    shown = ordered(there, order)[:most]
    answer = {
        "from": window.begin / MILLISECOND,
        "to": window.end / MILLISECOND,
        "width": width,
        "total_lanes": len(there),
        "states": states,
        "cells": None,
        "counts_max": None,
        "spans": None,
        "composition": None,
    }
    if len(there) > FLEET:
        answer["composition"] = {"states": _composition([painted[one.lane] for one in there], len(states), width)}
    if sum(one.spans for one in shown) <= min(MOST_SPANS, len(shown) * width // WIDE_ENOUGH):
        answer["spans"] = _spans(cursor, shown, window)
    else:
        answer["counts_max"] = densest
        answer["cells"] = base64.b64encode(b"".join(painted[one.lane] for one in shown)).decode()
    return {**answer, "lanes": [one.answer() for one in shown]}


@dataclass(frozen=True)
class _Kinds:
    """Every kind of span in the window, with the number of its state; 0 weighs what shows in gaps alone."""

    states: list[str]
    names: list[str]
    phases: list[str]
    numbers: list[int]
    weights: list[int]


@dataclass(frozen=True)
class _Shades:
    """Versions of the weights, oldest first, `each` of them to a state."""

    oldest: int = 0
    each: int = 1
    names: Sequence[str] = ()


def _shades(cursor: Cursor, window: _Window) -> _Shades:
    asked = {"from": window.begin, "to": window.end, "version": path(semconv.WEIGHTS_VERSION), "works": list(_WORKS)}
    found = row(cursor, _VERSIONS, asked) or {}
    oldest, newest = found["oldest"], found["newest"]
    if oldest is None:
        return _Shades()
    each = -(-(newest - oldest + 1) // _MOST_SHADES)
    firsts = range(oldest, newest + 1, each)
    return _Shades(oldest, each, [f"weights {one}" + (f" to {one + each - 1}" if each > 1 else "") for one in firsts])


def _kinds(cursor: Cursor, window: _Window) -> _Kinds:
    found = rows(cursor, _KINDS, {"from": window.begin, "to": window.end})
    names = list(dict.fromkeys((*_FIXED, *(_state(one["name"], one["phase"]) for one in found))))[:_MOST_STATES]
    places = {name: place for place, name in enumerate(names)}
    return _Kinds(
        names,
        [one["name"] for one in found],
        [one["phase"] for one in found],
        [places.get(_state(one["name"], one["phase"]), places[UNKNOWN]) for one in found],
        [0 if one["name"] in _ROOTS else 1 for one in found],
    )


def _state(name: str, phase: str) -> str:
    """The phase that it was for; else what was done, and of a replica that it generates."""
    if name in _WORKS:
        return _GENERATES
    return phase or name.rpartition(".")[2]


def _painted(
    cursor: Cursor, there: Sequence[Lane], kinds: _Kinds, shades: _Shades, window: _Window
) -> tuple[dict[str, bytes], int | None]:
    """A byte for each column of each lane, and the most spans of a cell; sets the lanes' idle shares."""
    if not there:
        return {}, None
    asked = {
        "from": window.begin,
        "to": window.end,
        "pixel": window.pixel,
        "names": kinds.names,
        "phases": kinds.phases,
        "states": kinds.numbers,
        "weights": kinds.weights,
        "works": list(_WORKS),
        "version": path(semconv.WEIGHTS_VERSION),
        "shades": len(shades.names),
        "shade": len(kinds.states),
        "oldest": shades.oldest,
        "each": shades.each,
        "lanes": [one.lane for one in there],
        "error": _FIXED.index(ERROR),
        "base": _BASE,
    }
    found = {one["number"]: one for one in rows(cursor, _CELLS, asked)}
    extents = {one["lane"]: one for one in rows(cursor, _EXTENTS)}
    painted = {}
    for number, lane in enumerate(there):
        cells = found[number]["cells"] if number in found else ""
        extent = extents[lane.lane]
        known = window.column(extent["first"]), window.column(extent["last"] + window.pixel - 1)
        painted[lane.lane] = line = _line(cells, known, window.width)
        lane.idle = line.count(_FIXED.index(IDLE)) / max(1, known[1] - known[0])
    return painted, max((int(one["spans"]) for one in found.values()), default=None)


_FROM_TEXT: Final = bytes(max(0, byte - _BASE) for byte in range(256))
_GAP_IS_IDLE: Final = bytes([_FIXED.index(IDLE), *range(1, 256)])


def _line(cells: str, known: tuple[int, int], width: int) -> bytes:
    """Nothing between two spans is idleness; before a lane's first and after its last nothing is known."""
    line = cells.encode("latin-1").ljust(width).translate(_FROM_TEXT)[:width]
    first, last = known
    return line[:first] + line[first:last].translate(_GAP_IS_IDLE) + line[last:]


def _composition(painted: Sequence[bytes], states: int, width: int) -> list[list[float]]:
    """For each column, the share of lanes in each state."""
    together = b"".join(painted)
    columns = (together[column::width] for column in range(width))
    return [[column.count(state) / len(painted) for state in range(states)] for column in columns]


def _spans(cursor: Cursor, shown: Sequence[Lane], window: _Window) -> list[Row]:
    if not shown:
        return []
    asked = {
        "from": window.begin,
        "to": window.end,
        "lanes": [one.lane for one in shown],
        "version": path(semconv.WEIGHTS_VERSION),
        "most": MOST_SPANS,
    }
    return [
        {
            "row": one["number"],
            "start": one["start"] / MILLISECOND,
            "end": one["end"] / MILLISECOND,
            "state": _state(one["name"], one["phase"]),
            "name": one["name"],
            "step": one["step"],
            "weights": integer(one["weights"]),
            "error": one["error"],
            "trace": one["trace"],
            "span": one["span"],
        }
        for one in rows(cursor, _SPANS, asked)
    ]
