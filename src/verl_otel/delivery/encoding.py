"""The SDK's objects as bytes: OTLP protobuf by the OTLP packages' own encoders, or lines of JSON for the console.

Imported by the gatherer's thread only: protobuf and its generated modules cost an import that training must not wait
for.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.trace import ReadableSpan

from verl_otel.delivery.handoff import give_way


class Encoder(Protocol):
    """Bytes of one request for each signal. Raises what the encoders raise for a value they can't take."""

    def traces(self, spans: Sequence[ReadableSpan]) -> bytes:
        """Encode finished spans."""

    def metrics(self, data: MetricsData) -> bytes:
        """Encode one collection."""

    def logs(self, records: Sequence[Any]) -> bytes:
        """Encode log records (`LogData` before SDK 1.36, `ReadableLogRecord` since)."""


AT_ONCE: Final = 32
"""Spans encoded before others have their turn: about a millisecond of work."""


class OtlpEncoder:
    """OTLP requests as protobuf, the same for HTTP and gRPC."""

    def traces(self, spans: Sequence[ReadableSpan]) -> bytes:
        # Encoded requests in a row are one request with all that they hold (Protocol Buffers, "Merging").
        return b"".join(self._traces(spans[first : first + AT_ONCE]) for first in range(0, len(spans), AT_ONCE))

    def _traces(self, spans: Sequence[ReadableSpan]) -> bytes:
        give_way()
        return bytes(encode_spans(spans).SerializeToString())

    def metrics(self, data: MetricsData) -> bytes:
        return bytes(encode_metrics(data).SerializeToString())

    def logs(self, records: Sequence[Any]) -> bytes:
        return bytes(encode_logs(records).SerializeToString())


class ConsoleEncoder:
    """One JSON object a line, as the SDK's console exporters print them."""

    def traces(self, spans: Sequence[ReadableSpan]) -> bytes:
        return _lines(span.to_json(indent=None) for span in spans)

    def metrics(self, data: MetricsData) -> bytes:
        return _lines([data.to_json(indent=None)])

    def logs(self, records: Sequence[Any]) -> bytes:
        # SDK 1.30 hands the processor a pair of record and scope; only the record knows its JSON.
        return _lines((one if hasattr(one, "to_json") else one.log_record).to_json(indent=None) for one in records)


def _lines(texts: Any) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode(errors="replace")
