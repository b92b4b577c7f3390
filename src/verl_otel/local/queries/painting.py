"""Spans painted into a matrix of states: in each cell what covers most of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

_MOST_SUMS: Final = 1 << 21
"""Sums that are kept at once, of every cell of some rows one for each state; and pieces of spans, one for each cell."""

Array = Any
"""One-dimensional, of NumPy."""


@dataclass(frozen=True)
class Spans:
    """Those to be painted, an entry for each, in any order.

    `rows`, `states`: numbers, of integers. `starts`, `ends`: ns since the matrix begins, within it. `weigh`: whether it
    is shown before those that don't, which fill gaps. `errors`: whether it failed.
    """

    rows: Array
    states: Array
    starts: Array
    ends: Array
    weigh: Array
    errors: Array

    def of(self, chosen: Array) -> "Spans":
        """Some of them, by an index or a slice."""
        return Spans(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


def paint(spans: Spans, rows: int, width: int, pixel: int, error: int) -> tuple[Array, int]:
    """The state of each cell as uint8[rows, width], 0 where there is no span; and the most spans that a cell has.

    A column is `pixel` ns wide. A cell in which one failed has the state `error`. Of states that cover as much of a
    cell, the one of the greater number is shown.
    """
    matrix, densest = np.zeros((rows, width), np.uint8), 0
    at_once = max(1, _MOST_SUMS // (width * max(1, len(np.unique(spans.states)))))
    for begin, part in _by_rows(spans, rows, at_once):
        height = min(at_once, rows - begin)
        painted, most = _cells(part, begin, height * width, width, pixel, error)
        matrix[begin : begin + height] = painted.reshape(height, width)
        densest = max(densest, most)
    return matrix, densest


def _by_rows(spans: Spans, rows: int, at_once: int) -> Iterator[tuple[int, Spans]]:
    """The spans of so many rows at once, with the first row's number; of rows without any nothing."""
    ordered = spans.of(np.argsort(spans.rows, kind="stable"))
    begins = range(0, rows, at_once)
    edges = np.searchsorted(ordered.rows, [*begins, rows])
    for begin, first, past in zip(begins, edges[:-1], edges[1:], strict=True):
        if past > first:
            yield begin, ordered.of(slice(first, past))


def _cells(spans: Spans, begin: int, cells: int, width: int, pixel: int, error: int) -> tuple[Array, int]:
    """The same of some rows, which begin with that one, as one line."""
    there, states = np.unique(spans.states, return_inverse=True)
    kinds = len(there)
    time, count = np.zeros(cells * kinds), np.zeros(cells * kinds, np.int64)
    failed = np.zeros(cells, bool)
    first = spans.starts // pixel
    pieces = (np.maximum(spans.ends, spans.starts + 1) - 1) // pixel - first + 1
    for some in slices(pieces, _MOST_SUMS):
        each = np.repeat(np.arange(some.start, some.stop), pieces[some])
        place = np.arange(len(each)) - np.repeat(np.cumsum(pieces[some]) - pieces[some], pieces[some]) + first[each]
        cell = (spans.rows[each] - begin) * width + place
        covered = np.minimum(spans.ends[each], (place + 1) * pixel) - np.maximum(spans.starts[each], place * pixel)
        # By a clock that was set back a span may end before it begins.
        covered = np.where(spans.weigh[each], np.maximum(covered, 0), 0)
        index = cell * kinds + states[each]
        time += np.bincount(index, covered, cells * kinds)
        count += np.bincount(index, minlength=cells * kinds)
        failed[cell[spans.errors[each]]] = True
    # As many that run at once can't cover more than all of it; what isn't there covers less than what fills a gap.
    shown = np.where(count > 0, np.minimum(time, pixel), -1).reshape(cells, kinds)
    painted = there[kinds - 1 - np.argmax(shown[:, ::-1], axis=1)]
    total = count.reshape(cells, kinds).sum(axis=1)
    painted[total == 0] = 0
    painted[failed] = error
    return painted, int(total.max())


def slices(sizes: Array | Sequence[int], most: int) -> Iterator[slice]:
    """Neighbours that are no larger than `most` together; at least one."""
    past = np.cumsum(sizes)
    begin = 0
    while begin < len(past):
        before = past[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(past, before + most, side="right")))
        yield slice(begin, end)
        begin = end
