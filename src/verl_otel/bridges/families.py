"""Metric families of prometheus_client, collected or parsed from text, as metric data.

Names are those of the text exposition, and no unit is given: a backend that adds suffixes for units and types finds
nothing to add but a counter's `_total`, which is there. A summary has no counterpart in OTel's Python SDK: its
quantiles are a gauge, its count and sum are sums that aren't monotonic, since a `_total` would be added to them.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE
_Labels = tuple[tuple[str, str], ...]
_Key = tuple[str, _Labels]


class Series:
    """Since when each cumulative series counts, for those that don't say: since it was first seen, or went down."""

    def __init__(self) -> None:
        self._seen: dict[_Key, tuple[int, float, int]] = {}

    def start(self, key: _Key, value: float, time: int) -> int:
        """Start time of a series that has `value` at `time`, both in ns since the epoch."""
        start, before, last = self._seen.get(key, (time, value, time))
        if value < before:  # its process began anew, after the last reading
            start = last
        self._seen[key] = (start, value, time)
        return start

    def forget(self, before: int) -> None:
        """Those not seen since then."""
        self._seen = {key: one for key, one in self._seen.items() if one[2] >= before}


def metrics_of(families: Iterable[Any], labels: Mapping[str, Any], time: int, series: Series) -> Iterator[Metric]:
    """Each family's metrics, their points of `time` (ns since the epoch) and with these labels added."""
    found = list(families)
    counting = {one.name for one in found if one.type in _CONVERTERS}
    created = {
        (base, _labels(sample.labels)): int(sample.value * 1e9)
        for family in found
        for sample in family.samples
        if (base := _made(sample.name, counting)) is not None
    }
    for family in found:
        samples = [one for one in family.samples if _made(one.name, counting) is None]
        if samples:
            starts = _Starts(family.name, created, series, time)
            yield from _CONVERTERS.get(family.type, _gauges)(family, samples, starts, labels, time)
    series.forget(time)


def _made(name: str, counting: Collection[str]) -> str | None:
    """The family that a sample tells the making of; None if it tells something else."""
    base = name.removesuffix("_created")
    return base if base != name and base in counting else None


class _Starts(NamedTuple):
    """Start times of a family's series."""

    family: str
    created: Mapping[tuple[str, _Labels], int]
    series: Series
    time: int

    def of(self, name: str, labels: _Labels, value: float) -> int:
        """That of one series, which has `value` now."""
        return self.created.get((self.family, labels)) or self.series.start((name, labels), value, self.time)


def _labels(labels: Mapping[str, str]) -> _Labels:
    return tuple(sorted(labels.items()))


def _by_name(samples: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for one in samples:
        found[one.name].append(one)
    return found


def _gauges(family: Any, samples: Iterable[Any], _: _Starts, labels: Mapping[str, Any], time: int) -> Iterator[Metric]:
    for name, found in _by_name(samples).items():
        points = [NumberDataPoint({**one.labels, **labels}, 0, time, float(one.value)) for one in found]
        yield Metric(name, family.documentation, "", Gauge(points))


def _sums(
    family: Any,
    samples: Iterable[Any],
    starts: _Starts,
    labels: Mapping[str, Any],
    time: int,
    *,
    is_monotonic: bool = True,
) -> Iterator[Metric]:
    for name, found in _by_name(samples).items():
        points = []
        for one in found:
            start = starts.of(name, _labels(one.labels), one.value)
            points.append(NumberDataPoint({**one.labels, **labels}, start, time, float(one.value)))
        yield Metric(name, family.documentation, "", Sum(points, _CUMULATIVE, is_monotonic=is_monotonic))


def _summary(
    family: Any, samples: Iterable[Any], starts: _Starts, labels: Mapping[str, Any], time: int
) -> Iterator[Metric]:
    counted = [one for one in samples if one.name.endswith(("_count", "_sum"))]
    yield from _gauges(family, [one for one in samples if "quantile" in one.labels], starts, labels, time)
    yield from _sums(family, counted, starts, labels, time, is_monotonic=False)


def _histogram(
    family: Any, samples: Iterable[Any], starts: _Starts, labels: Mapping[str, Any], time: int
) -> Iterator[Metric]:
    buckets: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    sums: dict[Any, float] = {}
    for one in samples:
        key = _labels({name: value for name, value in one.labels.items() if name != "le"})
        if one.name.endswith("_bucket"):
            buckets[key].append((float(one.labels["le"]), one.value))
        elif one.name.endswith("_sum"):
            sums[key] = one.value
    points = []
    for key, found in buckets.items():
        found.sort()
        total = int(found[-1][1])
        below = [0.0, *(value for _, value in found)]
        counts = [max(0, int(value - before)) for before, value in pairwise(below)]
        if not math.isinf(found[-1][0]):  # a page without its last bucket
            counts.append(0)
        bounds = [bound for bound, _ in found if not math.isinf(bound)]
        start = starts.of(family.name, key, total)
        attributes = {**dict(key), **labels}
        total_sum = sums.get(key)
        points.append(HistogramDataPoint(attributes, start, time, sum(counts), total_sum, counts, bounds, None, None))  # type: ignore[arg-type] # optional in OTLP
    if points:
        yield Metric(family.name, family.documentation, "", Histogram(points, _CUMULATIVE))


_CONVERTERS: Final[Mapping[str, Any]] = {"counter": _sums, "summary": _summary, "histogram": _histogram}
