"""OTLP requests from bytes: decompressed within bounds, and parsed, whether protobuf or JSON."""

import base64
import json
import zlib
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS: Final[dict[str, type[Message]]] = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
}
MOST_IN: Final = 16 << 20
MOST_OUT: Final = 64 << 20
"""Bytes of a request as it comes, and decompressed."""
PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_IDS: Final = frozenset({"traceId", "trace_id", "spanId", "span_id", "parentSpanId", "parent_span_id"})
_WINDOW: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class RequestError(ValueError):
    """A request that is not taken. `status`: of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read(signal: str, body: bytes, content_type: str, encoding: str) -> bytes:
    """The request as protobuf that parses. Raises `RequestError` with 400, 413 or 415."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (PROTOBUF, JSON):
        raise RequestError(415, f"the content type must be {PROTOBUF} or {JSON}")
    plain = decompress(body, encoding.strip().lower())
    if kind == JSON:
        return bytes(_from_json(signal, plain).SerializeToString())
    check(signal, plain)
    return plain


def check(signal: str, body: bytes) -> None:
    """Raises `RequestError` if it is no such request."""
    try:
        REQUESTS[signal].FromString(body)
    except DecodeError as error:
        raise RequestError(400, f"it is no protobuf of {signal}") from error


def decompress(body: bytes, encoding: str) -> bytes:
    """Undo a content encoding, up to `MOST_OUT` bytes. Raises `RequestError`."""
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOW:
        raise RequestError(415, "the content encoding must be gzip or deflate")
    unpacked = bytearray()
    try:
        while body:  # gzip may have several members
            unpacking = zlib.decompressobj(_WINDOW[encoding])
            unpacked += unpacking.decompress(body, MOST_OUT + 1 - len(unpacked))
            if len(unpacked) > MOST_OUT:
                raise RequestError(413, f"it is more than {MOST_OUT >> 20} MiB when decompressed")
            if not unpacking.eof:
                raise RequestError(400, f"its {encoding} is cut")
            body = unpacking.unused_data
    except zlib.error as error:
        raise RequestError(400, f"it is no {encoding}") from error
    return bytes(unpacked)


def _from_json(signal: str, body: bytes) -> Message:
    try:
        told = json.loads(body)
        return json_format.ParseDict(_with_bytes(told), REQUESTS[signal](), ignore_unknown_fields=True)
    except (ValueError, TypeError, AttributeError, RecursionError, json_format.ParseError) as error:
        raise RequestError(400, f"it is no OTLP JSON of {signal}") from error


def _with_bytes(told: Any) -> Any:
    """With ids, which OTLP has as hex, in protobuf's base64."""
    if isinstance(told, dict):
        return {key: _base64(one) if key in _IDS else _with_bytes(one) for key, one in told.items()}
    if isinstance(told, list):
        return [_with_bytes(one) for one in told]
    return told


def _base64(told: Any) -> Any:
    try:
        return base64.b64encode(bytes.fromhex(told)).decode()
    except (TypeError, ValueError):
        # A list is refused where an id is meant; in a field of a later version it may be anything.
        return None if told is None else [told]
