"""Registries of prometheus_client in this process, as metric data under the names of their own text exposition.

What counts, measures and buckets is read from where it is kept: going through `collect()`, as the exposition does,
takes ten times as long. Only collectors that have no such place are asked to collect.
"""

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)

from verl_otel.bridges.families import Series, metrics_of
from verl_otel.telemetry.instruments import are_delivered, read_from

MULTIPROCESS: Final = "PROMETHEUS_MULTIPROC_DIR"
SOURCE: Final = "prometheus_client"

Labels = Mapping[str, str | int]


class Registry:
    """A registry, None until there is one; `labels` are asked for at each reading, and added to every point."""

    def __init__(self, registry: Callable[[], Any], labels: Callable[[], Labels] = dict) -> None:
        self._registry, self._labels = registry, labels
        self._series = Series()

    def read(self, time: int) -> Iterator[Metric]:
        """Everything that is registered, as of `time` (ns since the epoch)."""
        registry, labels = self._registry(), dict(self._labels())
        if registry is None:
            return
        others = []
        for collector in _collectors(registry):
            made = _direct(collector, labels, time)
            if made is None:
                others.extend(collector.collect())
            elif made.data.data_points:
                yield made
        yield from metrics_of(others, labels, time, self._series)


_bridged: set[str] = set()


def bridge(name: str, registry: Callable[[], Any], labels: Callable[[], Labels] = dict) -> bool:
    """Read a registry from now on, as source `name`; a second of that name isn't. False if metrics go nowhere."""
    if not are_delivered():
        return False
    if name not in _bridged:
        _bridged.add(name)
        read_from(name, Registry(registry, labels).read)
    return True


def bridge_process(labels: Callable[[], Labels]) -> bool:
    """Read what this process's `/metrics` would show. False if metrics go nowhere."""
    return bridge(SOURCE, process_registry, labels)


def shared_registry() -> Any:
    """That of several processes, once there is one; until then None.

    Who makes it must import prometheus_client after it said where, so that it isn't imported here before.
    """
    return process_registry() if MULTIPROCESS in os.environ else None


def process_registry() -> Any:
    """The registry that this process's `/metrics` would show: prometheus_client's own, or that of several processes.

    Raises `ImportError` without prometheus_client.
    """
    import prometheus_client

    if MULTIPROCESS not in os.environ:
        return prometheus_client.REGISTRY
    from prometheus_client import multiprocess

    registry = prometheus_client.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


def _collectors(registry: Any) -> list[Any]:
    with registry._lock:  # noqa: SLF001 - as its own collect() does
        return list(registry._collector_to_names)  # noqa: SLF001


def _direct(collector: Any, labels: Labels, time: int) -> Metric | None:
    """What prometheus_client's own counters, gauges and histograms hold; None for what isn't one, or has a function."""
    if (read := _readers().get(type(collector))) is None:
        return None
    found = children(collector)
    for values, child in found:
        if "_child_samples" in child.__dict__:  # Gauge.set_function
            return None
        values.update(labels)
    return read(collector, found, time)


@functools.cache
def _readers() -> "dict[type, Callable[[Any, _Children, int], Metric]]":
    import prometheus_client

    return {
        prometheus_client.Counter: _counter,
        prometheus_client.Gauge: _gauge,
        prometheus_client.Histogram: _histogram,
    }


def children(metric: Any) -> list[tuple[dict[str, Any], Any]]:
    """The series of a metric: (labels, what holds its value)."""
    names = metric._labelnames  # noqa: SLF001
    if not names:
        return [({}, metric)]
    with metric._lock:  # noqa: SLF001
        return [(dict(zip(names, values, strict=False)), child) for values, child in metric._metrics.items()]  # noqa: SLF001


_Children = Iterable[tuple[dict[str, Any], Any]]


def _counter(metric: Any, children: _Children, time: int) -> Metric:
    points = [
        NumberDataPoint(labels, int(child._created * 1e9), time, child._value.get())  # noqa: SLF001
        for labels, child in children
    ]
    data = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    return Metric(f"{metric._name}_total", metric._documentation, "", data)  # noqa: SLF001


def _gauge(metric: Any, children: _Children, time: int) -> Metric:
    points = [NumberDataPoint(labels, 0, time, child._value.get()) for labels, child in children]  # noqa: SLF001
    return Metric(metric._name, metric._documentation, "", Gauge(points))  # noqa: SLF001


def _histogram(metric: Any, children: _Children, time: int) -> Metric:
    points = []
    for labels, child in children:
        counts = [int(bucket._value) for bucket in child._buckets]  # noqa: SLF001 - each bucket's own, not those below
        bounds = child._upper_bounds[:-1]  # noqa: SLF001 - the last is infinite
        total, start = child._sum.get(), int(child._created * 1e9)  # noqa: SLF001
        points.append(HistogramDataPoint(labels, start, time, sum(counts), total, counts, bounds, None, None))  # type: ignore[arg-type] # optional in OTLP
    data = Histogram(points, AggregationTemporality.CUMULATIVE)
    return Metric(metric._name, metric._documentation, "", data)  # noqa: SLF001
