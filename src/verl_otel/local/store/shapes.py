"""Metrics that were seen before: a process sends the same bytes each interval, but for times and values.

Those have places of their own, 8 bytes each. Once the places are known, a request is compared with the one before
without them, and its numbers are read all at once, at a tenth of what it costs to parse it.
"""

from collections import OrderedDict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from verl_otel.local.store.attributes import BIGGEST
from verl_otel.local.store.points import Number

_MOST: Final = 50_000
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5  # protobuf's wire types
_GAUGE, _SUM, _HISTOGRAM = 5, 7, 9  # fields of a Metric
_NAMES: Final = frozenset({1, 2, 3, 12})


class _OddError(ValueError):
    """Something that isn't always in the same place."""


@dataclass(frozen=True)
class _Distribution:
    """Of a histogram: which of the request's words are its numbers; None for what it lacks."""

    time: int
    start: int | None
    count: int | None
    sum: int | None
    min: int | None
    max: int | None
    first: int
    buckets: int
    bounds: str


@dataclass(frozen=True)
class _Shape:
    """Where things are in a request; shared by all processes whose requests are alike."""

    mask: Any  # bytes: 0 where what changes is
    places: Any  # (words, 8): of the bytes of each word
    times: Any
    values: Any
    whole: Any  # which values are whole numbers
    distributions: tuple[_Distribution, ...]


class _Seen(NamedTuple):
    """A request of a process: what it is beside its numbers, and the series of these."""

    shape: _Shape
    digest: int
    numbers: Any
    histograms: tuple[int, ...]
    named: tuple[int, ...]


class Chunk(NamedTuple):
    """Points as columns, and those of them that belong to snapshots (`named`)."""

    series: Any
    times: Any
    values: Any
    named: list[Number]


class Shapes:
    """Of the processes of a run."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[bytes, int], list[_Seen]] = OrderedDict()
        self._once: set[int] = set()
        self._shapes: dict[Any, _Shape] = {}

    def read(self, resource: bytes, body: bytes) -> tuple[Chunk, list[tuple[Any, ...]]] | None:
        """Its numbers, and rows of its histograms; None if it isn't known."""
        told = np.frombuffer(body, np.uint8)
        for one in self._seen.get((resource, len(body)), ()):
            if hash((told & one.shape.mask).tobytes()) == one.digest:
                return _numbers(told, one)
        return None

    def learn(
        self,
        resource: bytes,
        body: bytes,
        numbers: Sequence[Number],
        histograms: Sequence[tuple[Any, ...]],
        named: Container[int],
    ) -> None:
        """Know it next time, if its like came before. `numbers`, `histograms`: its rows.

        `named`: series of snapshots.
        """
        key = (resource, len(body))
        if key not in self._seen:
            if hash(key) not in self._once:  # most that come once never come again
                if len(self._once) > _MOST:
                    self._once.clear()
                self._once.add(hash(key))
                return
            self._seen[key] = []
        known = self._seen[key]
        try:
            shape = self._shared(_Finder(body).shape())
        except (_OddError, IndexError, UnicodeDecodeError):
            return
        if len(shape.times) != len(numbers) or len(shape.distributions) != len(histograms):
            return
        digest = hash((np.frombuffer(body, np.uint8) & shape.mask).tobytes())
        series = np.array([one[0] for one in numbers], dtype=np.int64)
        places = tuple(place for place, one in enumerate(numbers) if one[0] in named)
        known.append(_Seen(shape, digest, series, tuple(one[0] for one in histograms), places))
        del known[:-4]
        if len(self._seen) > _MOST:
            self._seen.popitem(last=False)

    def _shared(self, shape: _Shape) -> _Shape:
        key = (shape.mask.tobytes(), shape.times.tobytes(), shape.whole.tobytes(), shape.distributions)
        if len(self._shapes) > _MOST // 100:
            self._shapes.clear()
        return self._shapes.setdefault(key, shape)


def _numbers(told: Any, seen: _Seen) -> tuple[Chunk, list[tuple[Any, ...]]]:
    shape = seen.shape
    words = told[shape.places].view("<u8").ravel()
    doubles = words.view("<f8")
    times = np.minimum(words[shape.times], BIGGEST).astype(np.int64)
    values = doubles[shape.values]
    if shape.whole.any():
        values = np.where(shape.whole, words.view("<i8")[shape.values], values)
    named = [(int(seen.numbers[one]), int(times[one]), float(values[one])) for one in seen.named]
    rows = []
    if shape.distributions:
        whole, real = [*words.tolist(), 0], [*doubles.tolist(), None]
        for series, one in zip(seen.histograms, shape.distributions, strict=True):
            rows.append(
                (
                    series,
                    min(whole[one.time], BIGGEST),
                    min(whole[one.start], BIGGEST) if one.start is not None else None,
                    whole[one.count] if one.count is not None else 0,
                    real[one.sum] if one.sum is not None else None,
                    real[one.min] if one.min is not None else None,
                    real[one.max] if one.max is not None else None,
                    one.bounds,
                    str(whole[one.first : one.first + one.buckets]),
                )
            )
    return Chunk(seen.numbers, times, values, named), rows


class _Finder:
    """Walks through a request by protobuf's wire format. Raises `_OddError` where there is what it doesn't know."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._words: list[int] = []
        self._holes: list[tuple[int, int]] = []
        self._points: list[tuple[int, int, bool]] = []
        self._distributions: list[_Distribution] = []

    def shape(self) -> _Shape:
        """Of the whole request."""
        for _, _, start, end in self._only(0, len(self._body), 1):
            for number, _, *resource in self._fields(start, end):
                if number == 2:
                    self._scope(*resource)
        mask = np.full(len(self._body), 255, np.uint8)
        for start, end in self._holes:
            mask[start:end] = 0
        places = np.array(self._words, np.int64).reshape(-1, 1) + np.arange(8)
        times, values, whole = zip(*self._points, strict=True) if self._points else ((), (), ())
        return _Shape(
            mask,
            places,
            np.array(times, np.int64),
            np.array(values, np.int64),
            np.array(whole, np.bool_),
            tuple(self._distributions),
        )

    def _scope(self, at: int, end: int) -> None:
        for number, _, *metric in self._fields(at, end):
            if number == 2:
                self._metric(*metric)

    def _metric(self, at: int, end: int) -> None:
        for number, _, *data in self._fields(at, end):
            if number in (_GAUGE, _SUM, _HISTOGRAM):
                for inner, _, *point in self._fields(*data):
                    if inner == 1:
                        self._distribution(*point) if number == _HISTOGRAM else self._point(*point)
            elif number not in _NAMES:
                raise _OddError

    def _point(self, at: int, end: int) -> None:
        found: dict[int, int] = {}
        for number, wire, start, stop in self._fields(at, end):
            if number in (2, 3, 4, 6) and wire == _EIGHT:
                found[number] = self._word(start)
            elif number == 5:
                self._holes.append((start, stop))  # an exemplar
            elif number != 7:
                raise _OddError
        if 3 not in found or (4 in found) == (6 in found):
            raise _OddError
        self._points.append((found[3], found[4] if 4 in found else found[6], 6 in found))

    def _distribution(self, at: int, end: int) -> None:
        found: dict[int, int] = {}
        first, buckets, bounds = 0, 0, "[]"
        for number, wire, start, stop in self._fields(at, end):
            if number in (2, 3, 4, 5, 11, 12) and wire == _EIGHT:
                found[number] = self._word(start)
            elif number == 6 and wire == _BYTES and not buckets and (stop - start) % 8 == 0:
                first, buckets = len(self._words), (stop - start) // 8
                for place in range(start, stop, 8):
                    self._word(place)
            elif number == 7 and wire == _BYTES:
                bounds = str(np.frombuffer(self._body[start:stop], "<f8").tolist())
            elif number == 8:
                self._holes.append((start, stop))
            elif number != 9:
                raise _OddError
        if 3 not in found or buckets != bounds.count(",") + 2 or bounds == "[]":
            raise _OddError
        get = found.get
        self._distributions.append(
            _Distribution(found[3], get(2), get(4), get(5), get(11), get(12), first, buckets, bounds)
        )

    def _word(self, start: int) -> int:
        """Note 8 bytes that change; their number among all of these."""
        self._words.append(start)
        self._holes.append((start, start + 8))
        return len(self._words) - 1

    def _only(self, at: int, end: int, number: int) -> Iterator[tuple[int, int, int, int]]:
        found = list(self._fields(at, end))
        if len(found) != 1 or found[0][0] != number:
            raise _OddError
        yield from found

    def _fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """(number, wire type, first byte of the value, byte after it)."""
        while at < end:
            tag, at = varint(self._body, at)
            wire, start = tag & 7, at
            if wire == _BYTES:
                size, start = varint(self._body, at)
                at = start + size
            elif wire in (_EIGHT, _FOUR):
                at += 8 if wire == _EIGHT else 4
            elif wire == _VARINT:
                _, at = varint(self._body, at)
            else:
                raise _OddError
            yield tag >> 3, wire, start, at


def varint(body: bytes, at: int) -> tuple[int, int]:
    """A number of protobuf's, and the byte after it. Raises `IndexError` where it is cut."""
    found = shift = 0
    while True:
        byte = body[at]
        at += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at
        shift += 7


def only_resource(body: bytes) -> bytes | None:
    """The bytes of the resource of a request that has one ResourceMetrics alone; None of any other."""
    try:
        if body[0] != 0x0A:
            return None
        size, start = varint(body, 1)
        if start + size != len(body) or body[start] != 0x0A:
            return None
        size, start = varint(body, start + 1)
    except IndexError:
        return None
    return body[start : start + size]
