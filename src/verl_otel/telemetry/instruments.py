"""The instruments and producers of a runtime, made once for each, in one place."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from opentelemetry.metrics import Counter, Histogram, Meter

from verl_otel import runtime
from verl_otel.semconv import MetricName
from verl_otel.telemetry import recording, run, scalars, stuck

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

    from verl_otel.sdk import Runtime


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


def _instruments() -> Instruments:
    global _made
    current = runtime.current()
    if _made is None or _made[0] is not current:
        _made = current, Instruments(current.meter)
    return _made[1]


def histogram(metric: MetricName) -> Histogram:
    """A histogram of the current runtime."""
    return _instruments().histogram(metric)


def counter(metric: MetricName) -> Counter:
    """A counter of the current runtime."""
    return _instruments().counter(metric)


def produce(*producers: "Callable[[int], Iterable[Metric]]") -> None:
    """Ask these for metric data at each interval, in every runtime."""

    def add(started: "Runtime") -> None:
        if (reader := started.pipeline.reader) is not None:
            for producer in producers:
                reader.add_producer(producer)

    runtime.on_start(add)


produce(recording.open_durations, run.info, scalars.repeated)
runtime.on_start(lambda started: started.pipeline.watch(stuck.check))
