"""OTLP over gRPC: one call a try."""

import inspect
from collections.abc import Mapping
from typing import Any, Final

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from verl_otel.delivery.core import Batch, Outcome, Refused, Signal, Unreachable
from verl_otel.delivery.transports import accepted, is_loopback, timeout, variable


class GrpcTransport:
    """OTLP over gRPC: the exporter's own stub, headers and time-out, our own single try.

    None of the three has a public name; `tests/contract` holds them against each SDK.
    """

    def __init__(self, signal: Signal, headers: Mapping[str, str] | None) -> None:
        self._signal, self._headers = signal, headers
        self._connect()

    def _connect(self) -> None:
        exporter = _exporter(self._signal)
        options: dict[str, Any] = {"headers": tuple(self._headers.items())} if self._headers else {}
        # The exporter raises for every word but gzip, the standard's own `none` among them, and for a bad time-out.
        options["compression"] = _compression(self._signal)
        options["timeout"] = timeout(self._signal)
        made = exporter(**options)
        # A proxy variable would send even loopback traffic away; older exporters have no way to say so.
        if is_loopback(made._endpoint) and "channel_options" in inspect.signature(exporter).parameters:  # noqa: SLF001
            made.shutdown()
            made = exporter(channel_options=(("grpc.enable_http_proxy", 0),), **options)
        self._exporter = made
        self.endpoint: str = made._endpoint  # noqa: SLF001

    def send(self, batch: Batch) -> Outcome:
        """One call. The codes that OTLP calls retryable are tried again, after a new connection; the rest is final."""
        request = _REQUESTS[batch.signal].FromString(batch.payload)
        own = self._exporter
        try:
            response = own._client.Export(request, timeout=own._timeout, metadata=own._headers)  # noqa: SLF001
        except grpc.RpcError as error:
            code, detail = error.code(), f"gRPC {error.code().name}: {error.details()}"
            retry_after = _retry_after(error)
            # Exhausted for good, unless the server says when it will not be: a message over its limit, for one.
            exhausted = code is grpc.StatusCode.RESOURCE_EXHAUSTED and retry_after is None
            if code.name not in _RETRYABLE or exhausted:
                return Refused(detail)
            if code is grpc.StatusCode.UNAVAILABLE:
                # gRPC's own reconnects back off to two minutes; a new channel tries at once.
                own.shutdown()
                self._connect()
            return Unreachable(detail, retry_after)
        return accepted(batch.signal, response)


_REQUESTS: Final[dict[Signal, Any]] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
}

# OTLP/gRPC, "Failures": https://opentelemetry.io/docs/specs/otlp/#failures
_RETRYABLE: Final = frozenset(
    {
        "CANCELLED",
        "DEADLINE_EXCEEDED",
        "RESOURCE_EXHAUSTED",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNAVAILABLE",
        "DATA_LOSS",
    }
)


def _compression(signal: Signal) -> grpc.Compression:
    gzip = variable(signal, "COMPRESSION").lower() == "gzip"
    return grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression


def _exporter(signal: Signal) -> Any:
    return {Signal.TRACES: OTLPSpanExporter, Signal.METRICS: OTLPMetricExporter, Signal.LOGS: OTLPLogExporter}[signal]


def _retry_after(error: Any) -> float | None:
    packed = dict(error.trailing_metadata() or ()).get("google.rpc.retryinfo-bin")
    if packed is None:
        return None
    delay = RetryInfo.FromString(packed).retry_delay
    return float(delay.seconds + delay.nanos / 1e9)
