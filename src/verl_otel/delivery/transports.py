"""One try to hand one batch to the backend, and what came of it: HTTP, gRPC, console.

Endpoint, headers, TLS, compression and time-out are resolved by the OTLP packages' own exporters from the standard
variables. Their retry loops are not used: they give up, forget, and read a partial success as success.

Imported by the sender's thread only.
"""

import gzip
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from verl_otel.delivery.core import Accepted, Batch, Outcome, Refused, Signal, Unreachable


class Transport(Protocol):
    """Sends one batch, once."""

    endpoint: str

    def send(self, batch: Batch) -> Outcome:
        """Try once; never raises for what a network or a server may do."""


def is_loopback(url: str) -> bool:
    """Whether the endpoint is on this machine, where no proxy is to be asked."""
    host = (urlsplit(url if "//" in url else f"//{url}").hostname or "").lower()
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _partial(signal: Signal, body: bytes) -> Accepted:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    if signal is Signal.TRACES:
        return Accepted(ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
    if signal is Signal.METRICS:
        return Accepted(ExportMetricsServiceResponse.FromString(body).partial_success.rejected_data_points)
    return Accepted(ExportLogsServiceResponse.FromString(body).partial_success.rejected_log_records)


class HttpTransport:
    """OTLP over HTTP with protobuf.

    The exporter of the OTLP package makes one empty request into an adapter that keeps it instead of sending it: from
    then on that request, with its URL, headers and TLS settings, is the template of every one we send.
    """

    def __init__(self, signal: Signal, headers: Mapping[str, str] | None) -> None:
        import requests
        from requests.adapters import HTTPAdapter

        kept = _KeepRequest()
        session = requests.Session()
        session.mount("http://", kept)
        session.mount("https://", kept)
        exporter, nothing = _http_exporter(signal)
        exporter(session=session, headers=dict(headers) if headers else None).export(nothing)
        if kept.request is None:
            raise RuntimeError("the OTLP/HTTP exporter made no request to learn from")
        self._template, self._options = kept.request, kept.options
        self.endpoint: str = kept.request.url or ""
        if is_loopback(self.endpoint):
            self._options = {**self._options, "proxies": {}}
        self._compress = _compression(kept.request.headers.get("Content-Encoding", ""))
        self._adapter = HTTPAdapter()
        self._failures = (requests.RequestException, OSError)

    def send(self, batch: Batch) -> Outcome:
        """One POST. 2xx is accepted, 408, 429, 3xx and 5xx are tried again, any other 4xx is final (OTLP/HTTP)."""
        body = self._compress(batch.payload)
        request = self._template.copy()
        request.body = body
        request.headers["Content-Length"] = str(len(body))
        try:
            response = self._adapter.send(request, **self._options)
            content = response.content
        except self._failures as error:
            return Unreachable(_short(error))
        if response.ok and response.status_code < 300:
            try:
                return _partial(batch.signal, content)
            except Exception:  # noqa: BLE001 - protobuf's DecodeError; a body in another format says nothing of loss
                return Accepted()
        detail = f"HTTP {response.status_code} {response.reason}"
        if 400 <= response.status_code < 500 and response.status_code not in (408, 429):
            return Refused(detail)
        return Unreachable(detail, _retry_after(response.headers.get("Retry-After")))


def _http_exporter(signal: Signal) -> tuple[Any, Any]:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics.export import MetricsData

    return {
        Signal.TRACES: (OTLPSpanExporter, []),
        Signal.METRICS: (OTLPMetricExporter, MetricsData(resource_metrics=[])),
        Signal.LOGS: (OTLPLogExporter, []),
    }[signal]


class _KeepRequest:
    """A requests adapter that answers 200 itself and keeps what it was to send."""

    def __init__(self) -> None:
        self.request: Any = None
        self.options: dict[str, Any] = {}

    def send(self, request: Any, **options: Any) -> Any:
        import requests

        options.pop("stream", None)
        self.request, self.options = request, options
        response = requests.Response()
        response.status_code, response.url, response.request = 200, request.url, request
        response._content = b""  # noqa: SLF001 - a Response has no public way to be given a body
        return response

    def close(self) -> None:
        """Nothing is open."""


def _compression(encoding: str) -> Callable[[bytes], bytes]:
    if encoding == "gzip":
        return gzip.compress
    if encoding == "deflate":
        return zlib.compress
    return lambda payload: payload


def _retry_after(text: str | None) -> float | None:
    from datetime import datetime, timezone
    from email.utils import parsedate_to_datetime

    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or timezone.utc) - datetime.now(timezone.utc)).total_seconds())


class GrpcTransport:
    """OTLP over gRPC: the exporter's own channel, headers and time-out, our own single try.

    The exporter's channel has no public name; `tests/contract` holds the three attributes we read against each SDK.
    """

    _METHODS: Final = {
        Signal.TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        Signal.METRICS: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        Signal.LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    }

    def __init__(self, signal: Signal, headers: Mapping[str, str] | None) -> None:
        self._signal, self._headers = signal, headers
        self._connect()

    def _connect(self) -> None:
        import inspect

        exporter = _grpc_exporter(self._signal)
        options: dict[str, Any] = {"headers": tuple(self._headers.items())} if self._headers else {}
        made = exporter(**options)
        # A proxy variable would send even loopback traffic away; older exporters have no way to say so.
        if is_loopback(made._endpoint) and "channel_options" in inspect.signature(exporter).parameters:  # noqa: SLF001
            made.shutdown()
            made = exporter(channel_options=(("grpc.enable_http_proxy", 0),), **options)
        self._exporter = made
        self.endpoint: str = made._endpoint  # noqa: SLF001
        self._call = made._channel.unary_unary(self._METHODS[self._signal])  # noqa: SLF001

    def send(self, batch: Batch) -> Outcome:
        """One call. The codes that OTLP calls retryable are tried again, after a new connection; the rest is final."""
        import grpc

        try:
            body = self._call(batch.payload, timeout=self._exporter._timeout, metadata=self._exporter._headers)  # noqa: SLF001
        except grpc.RpcError as error:
            code, detail = error.code(), f"gRPC {error.code().name}: {error.details()}"
            if code.name not in _RETRYABLE:
                return Refused(detail)
            if code is grpc.StatusCode.UNAVAILABLE:
                # gRPC's own reconnects back off to two minutes; a new channel tries at once.
                self._exporter.shutdown()
                self._connect()
            return Unreachable(detail, _grpc_retry_after(error))
        return _partial(batch.signal, body)


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


def _grpc_exporter(signal: Signal) -> Any:
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return {Signal.TRACES: OTLPSpanExporter, Signal.METRICS: OTLPMetricExporter, Signal.LOGS: OTLPLogExporter}[signal]


def _grpc_retry_after(error: Any) -> float | None:
    from google.rpc.error_details_pb2 import RetryInfo

    packed = dict(error.trailing_metadata() or ()).get("google.rpc.retryinfo-bin")
    if packed is None:
        return None
    delay = RetryInfo.FromString(packed).retry_delay
    return float(delay.seconds + delay.nanos / 1e9)


class ConsoleTransport:
    """Writes what `ConsoleEncoder` made to standard output."""

    endpoint = "console"

    def send(self, batch: Batch) -> Outcome:
        """Write and flush; a closed output loses the batch."""
        try:
            sys.stdout.write(batch.payload.decode())
            sys.stdout.flush()
        except (OSError, ValueError) as error:
            return Refused(str(error))
        return Accepted()


def _short(error: BaseException) -> str:
    # urllib3 nests the cause; the innermost is what a person can act on.
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    return f"{type(error).__name__}: {error}"[:200]
