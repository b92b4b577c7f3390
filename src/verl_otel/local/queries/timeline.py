"""Who did what, when: lanes by time, as a matrix of states while spans are narrower than pixels, else as spans."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.lane_filter import chosen
from verl_otel.local.queries.lanes import Lane, lanes, ordered
from verl_otel.local.queries.painting import Spans, paint, slices
from verl_otel.local.queries.reading import (
    MILLISECOND,
    Cursor,
    ParameterError,
    Row,
    columns,
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
_MOST_READ: Final = 1_000_000
"""Spans that are read at once: each takes some 100 bytes."""

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
# The longest first: of states that cover as much of a cell the shorter spans' is shown, since it lies within the other.
_KINDS: Final = """
    SELECT name, coalesce(phase, '') AS phase, avg("end" - start) AS length FROM spans
    WHERE lane IS NOT NULL AND start < $to AND "end" > $from GROUP BY ALL ORDER BY length DESC
"""

_VERSION: Final = "try_cast(attributes ->> $version AS INTEGER)::BIGINT"
_VERSIONS: Final = f"""
    SELECT min(version) AS oldest, max(version) AS newest FROM (
        SELECT {_VERSION} AS version FROM spans
        WHERE lane IS NOT NULL AND name IN (SELECT unnest($works)) AND start < $to AND "end" > $from
    )
"""  # noqa: S608 - our own words

# A state for each span, its place in the window, and whether it is more than what fills gaps.
_STATES: Final = f"""
    WITH kinds AS (SELECT unnest($names) AS name, unnest($phases) AS phase, unnest($states) AS state,
        unnest($weights) AS weigh),
    who AS (SELECT unnest($lanes) AS lane, unnest(range(len($lanes))) AS number),
    told AS (
        SELECT *, CASE WHEN $shades > 0 AND name IN (SELECT unnest($works))
            THEN {_VERSION} END AS version
        FROM spans WHERE start < $to AND "end" > $from
    )
    -- A version that came in since they were asked for has the nearest state.
    SELECT number, weigh, error, (CASE WHEN version IS NULL THEN state
            ELSE $shade + least(greatest((version - $oldest) // $each, 0), $shades - 1) END)::SMALLINT AS state,
        greatest(start - $from, 0) AS start, least("end", $to) - $from AS "end"
    FROM told JOIN who USING (lane)
    JOIN kinds ON told.name = kinds.name AND coalesce(told.phase, '') = kinds.phase
"""  # noqa: S608 - our own words
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
    """Every kind of span in the window, with the number of its state, and whether it is more than what fills gaps."""

    states: list[str]
    names: list[str]
    phases: list[str]
    numbers: list[int]
    weights: list[bool]


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
        [one["name"] not in _ROOTS for one in found],
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
    }
    extents = {one["lane"]: one for one in rows(cursor, _EXTENTS)}
    painted, densest = {}, 0
    for these in slices([one.spans for one in there], _MOST_READ):
        some = there[these]
        told = columns(cursor, _STATES, {**asked, "lanes": [one.lane for one in some]})
        spans = Spans(told["number"], told["state"], told["start"], told["end"], told["weigh"], told["error"])
        matrix, most = paint(spans, len(some), window.width, window.pixel, _FIXED.index(ERROR))
        densest = max(densest, most)
        for lane, line in zip(some, matrix, strict=True):
            extent = extents[lane.lane]
            known = window.column(extent["first"]), window.column(extent["last"] + window.pixel - 1)
            painted[lane.lane] = full = _line(line.tobytes(), known)
            lane.idle = full.count(_FIXED.index(IDLE)) / max(1, known[1] - known[0])
    return painted, densest or None


_GAP_IS_IDLE: Final = bytes([_FIXED.index(IDLE), *range(1, 256)])


def _line(line: bytes, known: tuple[int, int]) -> bytes:
    """Nothing between two spans is idleness; before a lane's first and after its last nothing is known."""
    first, last = known
    return line[:first] + line[first:last].translate(_GAP_IS_IDLE) + line[last:]


def _composition(painted: Sequence[bytes], states: int, width: int) -> list[list[float]]:
    """For each column, the share of lanes in each state."""
    together = b"".join(painted)
    each = (together[column::width] for column in range(width))
    return [[column.count(state) / len(painted) for state in range(states)] for column in each]


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
