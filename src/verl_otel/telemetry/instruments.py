"""What is counted and measured: the instruments of the runtime there is, by their names, and the producers of others.

Nothing here starts a runtime: what ends after an `uninstrument()` must not begin delivery anew.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import Counter, Histogram, Meter
from opentelemetry.trace import Span

from verl_otel import runtime
from verl_otel.semconv import MetricName

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

    from verl_otel.sdk import Runtime


Attributes = Mapping[str, Any]


class Instruments:
    """The instruments of one runtime, each made at its first use; see `semconv` for names, units and buckets."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._histograms: dict[str, Histogram] = {}
        self._counters: dict[str, Counter] = {}

    def histogram(self, metric: MetricName) -> Histogram:
        """The histogram of that name."""
        if (found := self._histograms.get(metric.name)) is None:
            found = self._meter.create_histogram(
                metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=list(metric.buckets)
            )
            self._histograms[metric.name] = found
        return found

    def counter(self, metric: MetricName) -> Counter:
        """The counter of that name."""
        if (found := self._counters.get(metric.name)) is None:
            found = self._counters[metric.name] = self._meter.create_counter(
                metric.name, metric.unit, metric.description
            )
        return found


_made: "tuple[Runtime, Instruments] | None" = None


def _instruments() -> Instruments | None:
    global _made
    if (current := runtime.started()) is None:
        return None
    if _made is None or _made[0] is not current:
        _made = current, Instruments(current.meter)
    return _made[1]


def count(metric: MetricName, amount: float, attributes: Attributes) -> None:
    """Add to a counter."""
    if (found := _instruments()) is not None:
        found.counter(metric).add(amount, dict(attributes))


def measure(metric: MetricName, value: float, attributes: Attributes, span: Span) -> None:
    """Have a histogram record `value` by the gatherer's thread, since the SDK takes as long for that as for a span."""
    found, current = _instruments(), runtime.started()
    if found is not None and current is not None and (reader := current.pipeline.reader) is not None:
        reader.put_measured(found.histogram(metric), value, attributes, span)


def are_delivered() -> bool:
    """Whether metrics go anywhere from this process."""
    return runtime.current().pipeline.reader is not None


def read_from(name: str, read: "Callable[[int], Iterable[Metric]]") -> None:
    """Have other people's metrics read at each interval, on a thread of their own, in every runtime."""

    def add(started: "Runtime") -> None:
        if (reader := started.pipeline.reader) is not None:
            from verl_otel.delivery.sources import Source

            reader.add_source(Source(name, read))

    runtime.on_start(add)


def produce(*producers: "Callable[[int], Iterable[Metric]]") -> None:
    """Ask these for metric data at each interval, in every runtime."""

    def add(started: "Runtime") -> None:
        if (reader := started.pipeline.reader) is not None:
            for producer in producers:
                reader.add_producer(producer)

    runtime.on_start(add)
