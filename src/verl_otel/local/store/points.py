"""Metrics as rows: numbers, and histograms of every kind. A point without a value is none."""

from collections.abc import Iterator
from typing import Any, Final

from verl_otel.local.store.attributes import time_of
from verl_otel.local.store.catalog import Catalog, Kind, Process

_DELTA: Final = 1
_NO_VALUE: Final = 1  # flag of a point
_MOST_BUCKETS: Final = 1000

Number = tuple[int, int, float]
"""Series, time, value."""


def add_metrics(
    told: Any, process: Process, catalog: Catalog, numbers: list[Number], histograms: list[tuple[Any, ...]]
) -> None:
    """Append the rows of a ResourceMetrics."""
    before, older = len(numbers), len(histograms)
    for scoped in told.scope_metrics:
        scope = scoped.scope.name
        for metric in scoped.metrics:
            kind = metric.WhichOneof("data")
            if kind is None:
                continue
            data = getattr(metric, kind)
            monotonic = kind == "sum" and data.is_monotonic
            delta = kind not in ("gauge", "summary") and data.aggregation_temporality == _DELTA
            short = "histogram" if kind == "exponential_histogram" else kind
            named = Kind(process.number, scope, metric.name, metric.unit, short, monotonic, delta)
            points = _numbered(data.data_points, named, process, catalog)
            if kind in ("gauge", "sum"):
                _add_numbers(points, numbers)
            else:
                histograms += (_DISTRIBUTIONS[kind](number, point) for number, point in points)
    for rows in (numbers[before:], histograms[older:]):
        if rows:
            process.saw(min(row[1] for row in rows))
            process.saw(max(row[1] for row in rows))


def _numbered(points: Any, kind: Kind, process: Process, catalog: Catalog) -> Iterator[tuple[int, Any]]:
    """Each point with its series."""
    known = catalog.series_of(kind)
    for point in points:
        parts = tuple([one.SerializeToString() for one in point.attributes])
        number = known.get(parts)
        if number is None:
            number = catalog.add(kind, parts, point.attributes, process)
        if not point.flags & _NO_VALUE:
            yield number, point


def _add_numbers(points: Iterator[tuple[int, Any]], numbers: list[Number]) -> None:
    for number, point in points:
        which = point.WhichOneof("value")
        if which is not None:
            value = point.as_double if which == "as_double" else float(point.as_int)
            numbers.append((number, time_of(point.time_unix_nano), value))


def _explicit(number: int, point: Any) -> tuple[Any, ...]:
    bounds, counts = list(point.explicit_bounds), list(point.bucket_counts)
    if len(counts) != len(bounds) + 1:  # without buckets, or not as OTLP has it
        bounds, counts = [], [point.count]
    return _row(number, point, bounds, counts)


def _exponential(number: int, point: Any) -> tuple[Any, ...]:
    """Its buckets by their bounds, which are powers of a base."""
    base = 2.0 ** (2.0**-point.scale) if -10 <= point.scale <= 20 else 0.0
    edges: list[float] = []
    counts: list[int] = []
    total = len(point.negative.bucket_counts) + len(point.positive.bucket_counts)
    if not base or total > _MOST_BUCKETS:
        return _row(number, point, [], [point.count])
    for place, count in reversed(list(enumerate(point.negative.bucket_counts))):
        edges.append(-_power(base, point.negative.offset + place))
        counts.append(count)
    edges.append(point.zero_threshold)
    counts.append(point.zero_count)
    for place, count in enumerate(point.positive.bucket_counts):
        if not place and (low := _power(base, point.positive.offset)) > edges[-1]:
            edges.append(low)
            counts.append(0)
        edges.append(_power(base, point.positive.offset + place + 1))
        counts.append(count)
    return _row(number, point, edges, [*counts, 0])


def _power(base: float, exponent: int) -> float:
    try:
        return base**exponent
    except OverflowError:
        return float("inf")


def _summary(number: int, point: Any) -> tuple[Any, ...]:
    start = time_of(point.start_time_unix_nano) or None
    ends = {one.quantile: one.value for one in point.quantile_values}
    least, most = ends.get(0.0), ends.get(1.0)
    return (number, time_of(point.time_unix_nano), start, point.count, point.sum, least, most, "[]", f"[{point.count}]")


def _row(number: int, point: Any, bounds: list[float], counts: list[int]) -> tuple[Any, ...]:
    return (
        number,
        time_of(point.time_unix_nano),
        time_of(point.start_time_unix_nano) or None,
        point.count,
        point.sum if point.HasField("sum") else None,
        point.min if point.HasField("min") else None,
        point.max if point.HasField("max") else None,
        str(bounds),
        str(counts),
    )


_DISTRIBUTIONS: Final = {"histogram": _explicit, "exponential_histogram": _exponential, "summary": _summary}
