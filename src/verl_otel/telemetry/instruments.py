"""The instruments and producers of a runtime, made once for each, in one place."""

from typing import TYPE_CHECKING

from opentelemetry.metrics import Histogram, Meter

from verl_otel import runtime, semconv
from verl_otel.semconv import MetricName
from verl_otel.telemetry import recording, run, scalars, stuck

if TYPE_CHECKING:
    from verl_otel.sdk import Runtime


class Instruments:
    """What records into histograms; see `semconv` for names, units and buckets."""

    def __init__(self, meter: Meter) -> None:
        self.phase_duration = _histogram(meter, semconv.PHASE_DURATION)
        self.worker_duration = _histogram(meter, semconv.WORKER_DURATION)


def _histogram(meter: Meter, metric: MetricName) -> Histogram:
    return meter.create_histogram(
        metric.name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=list(metric.buckets)
    )


_made: "tuple[Runtime, Instruments] | None" = None


def instruments() -> Instruments:
    """The instruments of the current runtime."""
    global _made
    current = runtime.current()
    if _made is None or _made[0] is not current:
        _made = current, Instruments(current.meter)
    return _made[1]


def _add_producers(started: "Runtime") -> None:
    started.pipeline.watch(stuck.check)
    if (reader := started.pipeline.reader) is not None:
        for producer in (recording.open_durations, run.info, scalars.repeated):
            reader.add_producer(producer)


runtime.on_start(_add_producers)
