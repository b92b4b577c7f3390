"""OTLP over HTTP: one POST a try."""

import gzip
import zlib
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Final

import requests
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.metrics.export import MetricsData
from requests.adapters import BaseAdapter, HTTPAdapter

from verl_otel.delivery.core import Accepted, Batch, Outcome, Refused, Signal, Unreachable
from verl_otel.delivery.transports import accepted, is_loopback, timeout, variable


class HttpTransport:
    """OTLP over HTTP with protobuf.

    The exporter of the OTLP package makes one empty request into an adapter that keeps it instead of sending it: from
    then on that request, with its URL, headers and TLS settings, is the template of every one we send.
    """

    def __init__(self, signal: Signal, headers: Mapping[str, str] | None) -> None:
        kept = _KeepRequest()
        session = requests.Session()
        session.mount("http://", kept)
        session.mount("https://", kept)
        exporter, nothing = _http_exporter(signal)
        exporter(
            session=session,
            headers=dict(headers) if headers else None,
            compression=_known(variable(signal, "COMPRESSION")),
            timeout=timeout(signal),
        ).export(nothing)
        if kept.request is None:
            raise RuntimeError("the OTLP/HTTP exporter made no request to learn from")
        self._template, self._options = kept.request, kept.options
        # requests lets REQUESTS_CA_BUNDLE override the certificate that was given for this endpoint.
        if isinstance(session.verify, str):
            self._options = {**self._options, "verify": session.verify}
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
                return accepted(batch.signal, _RESPONSES[batch.signal].FromString(content))
            except DecodeError:  # a body in another format says nothing of loss
                return Accepted()
        detail = f"HTTP {response.status_code} {response.reason}"
        if 400 <= response.status_code < 500 and response.status_code not in (408, 429):
            return Refused(detail)
        # The next try is to find who answers then: this connection may be to something that goes away.
        self._adapter.close()
        return Unreachable(detail, _retry_after(response.headers.get("Retry-After")))


_RESPONSES: Final[dict[Signal, Any]] = {
    Signal.TRACES: ExportTraceServiceResponse,
    Signal.METRICS: ExportMetricsServiceResponse,
    Signal.LOGS: ExportLogsServiceResponse,
}


def _http_exporter(signal: Signal) -> tuple[Any, Any]:
    return {
        Signal.TRACES: (OTLPSpanExporter, []),
        Signal.METRICS: (OTLPMetricExporter, MetricsData(resource_metrics=[])),
        Signal.LOGS: (OTLPLogExporter, []),
    }[signal]


class _KeepRequest(BaseAdapter):
    """A requests adapter that answers 200 itself and keeps what it was to send."""

    def __init__(self) -> None:
        super().__init__()
        self.request: Any = None
        self.options: dict[str, Any] = {}

    def send(self, request: Any, **options: Any) -> requests.Response:  # type: ignore[override]
        """Keep the request and what it was to be sent with."""
        options.pop("stream", None)
        self.request, self.options = request, options
        response = requests.Response()
        response.status_code, response.url, response.request = 200, request.url, request
        response._content = b""  # noqa: SLF001 - a Response has no public way to be given a body
        return response

    def close(self) -> None:
        """Nothing is open."""


def _known(compression: str) -> Compression:
    known = compression.lower() in ("gzip", "deflate")
    return Compression(compression.lower()) if known else Compression.NoCompression


def _compression(encoding: str) -> Callable[[bytes], bytes]:
    if encoding == "gzip":
        return gzip.compress
    if encoding == "deflate":
        return zlib.compress
    return lambda payload: payload


def _retry_after(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, (when.replace(tzinfo=when.tzinfo or timezone.utc) - datetime.now(timezone.utc)).total_seconds())


def _short(error: BaseException) -> str:
    # requests wraps urllib3's error, whose reason is what a person can act on.
    reason = getattr(error.args[0], "reason", None) if error.args else None
    found = reason or error
    return f"{type(found).__name__}: {str(found).rsplit(': ', 1)[-1]}"[:200]
