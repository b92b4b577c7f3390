"""The metric reader: collects the SDK's instruments, asks the producers and has the sources read.

Producers give metric data that instruments can't carry. Snapshots (a step's scalars) are kept apart from what is
collected at the interval: each is one request of its own, with its own time, and none replaces another. Sources give
other people's metrics, each under a scope of its own.
"""

import os
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import monotonic, time_ns
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.metrics import Histogram as HistogramApi
from opentelemetry.sdk.metrics import Counter, Histogram, ObservableCounter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Metric,
    MetricReader,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Span, set_span_in_context

from verl_otel import semconv
from verl_otel.delivery.handoff import Handoff, give_way
from verl_otel.delivery.points import counter
from verl_otel.delivery.sources import PATIENCE, Source
from verl_otel.guard import guard
from verl_otel.version import __version__

Producer = Callable[[int], Iterable[Metric]]
"""Asked at each interval for metric data of the time given (ns); an exception costs its own data and is counted."""

_SCOPE: Final = InstrumentationScope(semconv.SCOPE, __version__, semconv.SCHEMA_URL)

AT_ONCE: Final = 32
"""Values recorded before others have their turn: about a millisecond of work."""
MOST_IN_REQUEST: Final = 5000
"""Data points of a source in one request."""
MOST_SNAPSHOTS: Final = 1024
"""Log calls waiting to be encoded, each with its mapping; gathered four times a second."""


class GatheringReader(MetricReader):
    """An SDK metric reader without a thread; `gather` and `snapshots` are called by the one that has it."""

    def __init__(self, resource: Resource) -> None:
        """`resource`: of what the producers give, and the snapshots."""
        super().__init__(preferred_temporality=preferred_temporality(os.environ))
        self._resource = resource
        self._collected: MetricsData | None = None
        self._producers: list[Producer] = []
        self._snapshots = Handoff(MOST_SNAPSHOTS)
        self._measured = Handoff()
        self._sources: list[Source] = []
        self._missed: Tally[tuple[str, str]] = Tally()
        self._since = time_ns()

    def add_producer(self, producer: Producer) -> None:
        """Ask `producer` too from now on."""
        self._producers.append(producer)

    def add_source(self, source: Source) -> None:
        """Have `source` read too from now on."""
        self._sources.append(source)

    def put_snapshot(self, make: Callable[[], Iterable[Metric]]) -> None:
        """Queue one snapshot; `make` is called later, by the gatherer's thread. Returns at once."""
        self._snapshots.put(make)

    def put_measured(self, histogram: HistogramApi, value: float, attributes: Mapping[str, Any], span: Span) -> None:
        """Have `value` recorded later, by the gatherer's thread, with `span` as its exemplar's. Returns at once."""
        self._measured.put((histogram, value, attributes, span))

    def record_measured(self) -> None:
        """Record what was put."""
        while measured := self._measured.take(AT_ONCE):
            give_way()
            for histogram, value, attributes, span in measured:
                with guard("recording a duration"):
                    histogram.record(value, dict(attributes), context=set_span_in_context(span, Context()))

    def gather(self, time: int) -> MetricsData:
        """What the instruments and producers hold; `time` (ns since the epoch) is that of the producers' points."""
        self._collected = None
        for source in self._sources:
            source.ask(time)
        self.record_measured()
        with guard("collecting metrics"):
            self.collect()
        produced: list[Metric] = []
        for producer in list(self._producers):
            with guard("metric producer"):
                produced.extend(producer(time))
        if self._missed:
            points = [({semconv.SOURCE: name, semconv.MISS_REASON: why}, n) for (name, why), n in self._missed.items()]
            produced.append(counter(semconv.TELEMETRY_MISSED, points, self._since, time))
        scopes = [scope for one in _resource_metrics(self._collected) for scope in one.scope_metrics]
        ours = [metric for scope in scopes if scope.scope == _SCOPE for metric in scope.metrics]
        others = [scope for scope in scopes if scope.scope != _SCOPE]
        # The OTLP encoder keeps one entry for equal resources, and one for equal scopes: the last.
        return self._wrap([*ours, *produced], others)

    def sourced(self) -> Iterator[MetricsData]:
        """What the sources read at the time of the last `gather`."""
        deadline = monotonic() + PATIENCE
        for source in self._sources:
            metrics, fault = source.take(deadline)
            if fault is not None:
                self._missed[source.name, fault] += 1
            for some in _in_requests(metrics):
                yield self._data([ScopeMetrics(InstrumentationScope(source.name), some, "")])

    def snapshots(self) -> Iterator[MetricsData | None]:
        """The queued snapshots, oldest first; None for one that couldn't be made."""
        while makers := self._snapshots.take(1):
            made = None
            with guard("snapshot"):
                made = self._wrap(list(makers[0]()))
            yield made

    def discard(self) -> int:
        """Drop the queued snapshots and measured values; returns how many."""
        return self._snapshots.discard() + self._measured.discard()

    def take_overflow(self) -> int:
        """Snapshots and measured values dropped since the last call."""
        return self._snapshots.take_overflow() + self._measured.take_overflow()

    def _wrap(self, metrics: list[Metric], others: Sequence[ScopeMetrics] = ()) -> MetricsData:
        scoped = ScopeMetrics(_SCOPE, metrics, semconv.SCHEMA_URL)
        return self._data([scoped, *others])

    def _data(self, scopes: Sequence[ScopeMetrics]) -> MetricsData:
        return MetricsData([ResourceMetrics(self._resource, scopes, "")])

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: object) -> None:
        self._collected = metrics_data

    def stop_sources(self) -> None:
        """Have none read again."""
        for source in self._sources:
            source.stop()

    def shutdown(self, timeout_millis: float = 30_000, **_: object) -> None:
        """Nothing is open here."""


def _in_requests(metrics: Iterable[Metric]) -> Iterator[list[Metric]]:
    """Metrics in portions that a server takes: gRPC's refuse over 4 MiB, and a point with many labels has 400 bytes."""
    some: list[Metric] = []
    points = 0
    for metric in metrics:
        size = len(metric.data.data_points)
        if some and points + size > MOST_IN_REQUEST:
            yield some
            some, points = [], 0
        some.append(metric)
        points += size
    if some:
        yield some


def _resource_metrics(data: MetricsData | None) -> Sequence[ResourceMetrics]:
    return data.resource_metrics if data is not None else ()


def count_points(data: MetricsData) -> int:
    """Data points in a collection."""
    return sum(
        len(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    )


def preferred_temporality(environ: Mapping[str, str]) -> dict[type, AggregationTemporality] | None:
    """Temporality by OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE, as the OTLP exporter specification has it.

    https://opentelemetry.io/docs/specs/otel/metrics/sdk_exporters/otlp/#additional-environment-variable-configuration
    None (cumulative for all) for `cumulative`, nothing, or an unknown word.
    """
    delta = AggregationTemporality.DELTA
    preference = environ.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "").strip().lower()
    if preference == "delta":
        return {Counter: delta, Histogram: delta, ObservableCounter: delta}
    if preference == "lowmemory":
        return {Counter: delta, Histogram: delta}
    return None
