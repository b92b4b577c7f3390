"""Small OTLP requests of a run, made by hand: what the SDK would send, and what it never would."""

import itertools

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

from verl_otel import semconv

BEGIN = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
_ids = itertools.count(1)


def value(told):
    if isinstance(told, bool):
        return AnyValue(bool_value=told)
    if isinstance(told, int):
        return AnyValue(int_value=told)
    if isinstance(told, float):
        return AnyValue(double_value=told)
    if isinstance(told, list):
        return AnyValue(array_value=ArrayValue(values=[value(one) for one in told]))
    return AnyValue(string_value=told)


def pairs(attributes):
    return [KeyValue(key=key, value=value(one)) for key, one in attributes.items()]


def resource(run, process="p", attempt=1, **more):
    named = {"service.instance.id": process, "host.name": "node-0", "process.pid": 7, semconv.RUN_ATTEMPT: attempt}
    return pairs({**named, **({semconv.RUN_ID: run} if run else {}), **more})


def traces(run, count=1, process="p", attempt=1, name="verl.phase.gen", attributes=None, start=BEGIN):
    """Spans with ids that no other has."""
    request = ExportTraceServiceRequest()
    told = request.resource_spans.add()
    told.resource.attributes.extend(resource(run, process, attempt))
    scope = told.scope_spans.add()
    scope.scope.name = "verl_otel"
    for _ in range(count):
        number = next(_ids)
        span = scope.spans.add(name=name, kind=1, start_time_unix_nano=start, end_time_unix_nano=start + SECOND)
        span.trace_id, span.span_id = number.to_bytes(16, "big"), number.to_bytes(8, "big")
        span.attributes.extend(pairs(attributes or {}))
    return request


def metrics(run, points, time=BEGIN, process="p", attempt=1):
    """Gauges: (name, attributes, value) each; a whole number stays one."""
    request = ExportMetricsServiceRequest()
    told = request.resource_metrics.add()
    told.resource.attributes.extend(resource(run, process, attempt))
    scope = told.scope_metrics.add()
    scope.scope.name = "verl_otel"
    for name, attributes, number in points:
        point = scope.metrics.add(name=name, unit="s").gauge.data_points.add(time_unix_nano=time)
        point.attributes.extend(pairs(attributes))
        setattr(point, "as_int" if isinstance(number, int) else "as_double", number)
    return request


def snapshot(run, step, scalars, time=BEGIN, process="p", attempt=1):
    """What one call of `Tracking.log` gives."""
    points = [(f"verl.{key}", {semconv.METRIC_KEY: key}, number) for key, number in scalars.items()]
    return metrics(run, [(semconv.STEP_SNAPSHOT.name, {}, step), *points], time, process, attempt)


def event(run, name, attributes=None, time=BEGIN, process="p", attempt=1):
    request = ExportLogsServiceRequest()
    told = request.resource_logs.add()
    told.resource.attributes.extend(resource(run, process, attempt))
    record = told.scope_logs.add().log_records.add(time_unix_nano=time, severity_number=9)
    record.attributes.extend(pairs({**(attributes or {}), semconv.EVENT_NAME: name}))
    return request


SIGNALS = {
    ExportTraceServiceRequest: "traces",
    ExportMetricsServiceRequest: "metrics",
    ExportLogsServiceRequest: "logs",
}


def send(store, *requests):
    """Have the store accept them."""
    for one in requests:
        store.accept(SIGNALS[type(one)], one.SerializeToString())
