"""OTLP requests out of plain values, for data that nobody measured."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from verl_otel import semconv

INTERNAL: Final = 1
SERVER: Final = 2
CLIENT: Final = 3

_HAS_EVENT_NAME: Final = "event_name" in LogRecord.DESCRIPTOR.fields_by_name
"""Older packages of OTLP lack it."""

Request = tuple[str, bytes]
"""Signal, and the protobuf of a request."""


def identity(*words: object, size: int) -> bytes:
    """Bytes that stand for what the words say, always the same."""
    return blake2b("/".join(map(str, words)).encode(), digest_size=size).digest()


def trace_id(*words: object) -> bytes:
    """Of a trace."""
    return identity(*words, size=16)


def span_id(*words: object) -> bytes:
    """Of a span."""
    return identity(*words, size=8)


@dataclass
class Span:
    """A span as OTLP has it; times in ns. `links`: (trace, span)."""

    trace: bytes
    id: bytes
    parent: bytes
    name: str
    start: int
    end: int
    attributes: Mapping[str, Any]
    kind: int = INTERNAL
    error: str | None = None
    links: Iterable[tuple[bytes, bytes]] = ()


@dataclass
class Batch:
    """What processes send, by process; `take` gives it as requests."""

    resources: Mapping[str, Mapping[str, Any]]
    """Attributes of each process."""
    _spans: dict[str, list[Span]] = field(default_factory=dict)
    _metrics: dict[tuple[str, str], dict[str, Metric]] = field(default_factory=dict)

    def span(self, process: str, span: Span) -> None:
        """A span that a process made."""
        self._spans.setdefault(process, []).append(span)

    def point(
        self, process: str, metric: tuple[str, str], time: int, value: float, attributes: Mapping[str, Any],
        *, scope: str = semconv.SCOPE, total: bool = False,
    ) -> None:  # fmt: skip
        """A value of a metric (name, unit); `total`: of a counter, else of a gauge."""
        name, unit = metric
        metrics = self._metrics.setdefault((process, scope), {})
        if (made := metrics.get(name)) is None:
            made = metrics[name] = Metric(name=name, unit=unit)
            if total:
                made.sum.aggregation_temporality, made.sum.is_monotonic = CUMULATIVE, True
        points = made.sum.data_points if total else made.gauge.data_points
        points.append(NumberDataPoint(time_unix_nano=time, as_double=value, attributes=pairs(attributes)))

    def histogram(
        self,
        process: str,
        metric: semconv.MetricName,
        time: int,
        values: Iterable[float],
        attributes: Mapping[str, Any],
    ) -> None:
        """A cumulative histogram of a metric of ours, as it is at a time."""
        known = sorted(values)
        made = self._metrics.setdefault((process, semconv.SCOPE), {})
        if metric.name not in made:
            made[metric.name] = Metric(name=metric.name, unit=metric.unit)
            made[metric.name].histogram.aggregation_temporality = CUMULATIVE
        point = made[metric.name].histogram.data_points.add(time_unix_nano=time, attributes=pairs(attributes))
        point.count, point.sum, point.min, point.max = len(known), sum(known), known[0], known[-1]
        point.explicit_bounds.extend(metric.buckets)
        below = [sum(one <= bound for one in known) for bound in metric.buckets]
        edges = [0, *below, len(known)]
        point.bucket_counts.extend(more - less for less, more in pairwise(edges))

    def take(self) -> list[Request]:
        """All of it, and it is empty then."""
        found = []
        if self._spans:
            found.append(("traces", self._traces()))
        if self._metrics:
            found.append(("metrics", self._measured()))
        self._spans, self._metrics = {}, {}
        return found

    def event(self, process: str, name: str, time: int, attributes: Mapping[str, Any], severity: int = 9) -> Request:
        """The request of an event."""
        request = ExportLogsServiceRequest()
        logs = request.resource_logs.add()
        logs.resource.attributes.extend(pairs(self.resources[process]))
        record = logs.scope_logs.add().log_records.add(time_unix_nano=time, severity_number=severity)
        if _HAS_EVENT_NAME:
            record.event_name = name
            record.attributes.extend(pairs(attributes))
        else:
            record.attributes.extend(pairs({**attributes, semconv.EVENT_NAME: name}))
        return "logs", request.SerializeToString()

    def _traces(self) -> bytes:
        request = ExportTraceServiceRequest()
        for process, spans in self._spans.items():
            resource = request.resource_spans.add()
            resource.resource.attributes.extend(pairs(self.resources[process]))
            scope = resource.scope_spans.add()
            scope.scope.name = semconv.SCOPE
            for one in spans:
                made = scope.spans.add(
                    trace_id=one.trace,
                    span_id=one.id,
                    parent_span_id=one.parent,
                    name=one.name,
                    kind=one.kind,
                    start_time_unix_nano=one.start,
                    end_time_unix_nano=one.end,
                    attributes=pairs(one.attributes),
                )
                if one.error is not None:
                    made.status.code = Status.STATUS_CODE_ERROR
                    made.status.message = one.error
                for trace, span in one.links:
                    made.links.add(trace_id=trace, span_id=span)
        return request.SerializeToString()

    def _measured(self) -> bytes:
        request = ExportMetricsServiceRequest()
        for (process, scope), metrics in self._metrics.items():
            resource = request.resource_metrics.add()
            resource.resource.attributes.extend(pairs(self.resources[process]))
            scoped = resource.scope_metrics.add()
            scoped.scope.name = scope
            scoped.metrics.extend(metrics.values())
        return request.SerializeToString()


def pairs(attributes: Mapping[str, Any]) -> list[KeyValue]:
    """OTLP's, without what is None."""
    return [KeyValue(key=key, value=_value(value)) for key, value in attributes.items() if value is not None]


def _value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, list | tuple):
        made = AnyValue()
        made.array_value.values.extend(_value(one) for one in value)
        return made
    return AnyValue(string_value=value)
