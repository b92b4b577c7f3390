"""Metric data built by hand, for what instruments refuse: NaN, names with colons, points of a given time.

Values go through `float`, since an encoder given a bool or 2**70 fails the whole request.
"""

from collections.abc import Iterable, Mapping

from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum

from verl_otel.semconv import MetricName

Attributes = Mapping[str, str | int | float | bool]
Points = Iterable[tuple[Attributes, float]]


def gauge(metric: MetricName, points: Points, time: int) -> Metric:
    """A gauge of (attributes, value) points at `time` (ns since the epoch)."""
    data = Gauge([NumberDataPoint(dict(attributes), 0, time, float(value)) for attributes, value in points])
    return Metric(metric.name, metric.description, metric.unit, data)


def level(metric: MetricName, points: Points, start: int, time: int) -> Metric:
    """A cumulative sum that goes up and down, from `start` to `time` (ns since the epoch)."""
    data = Sum(
        [NumberDataPoint(dict(attributes), start, time, float(value)) for attributes, value in points],
        AggregationTemporality.CUMULATIVE,
        is_monotonic=False,
    )
    return Metric(metric.name, metric.description, metric.unit, data)


def counter(metric: MetricName, points: Points, start: int, time: int) -> Metric:
    """A cumulative monotonic sum from `start` to `time` (ns since the epoch)."""
    data = Sum(
        [NumberDataPoint(dict(attributes), start, time, float(value)) for attributes, value in points],
        AggregationTemporality.CUMULATIVE,
        is_monotonic=True,
    )
    return Metric(metric.name, metric.description, metric.unit, data)
