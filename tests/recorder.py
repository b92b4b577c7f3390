"""An OTLP sink over HTTP on loopback that keeps what it gets, as it came: protobuf, gzip or deflate.

It answers by the OTLP standard (200 with an empty response, 400 for what it can't read, 404 and 415 for what it doesn't
serve) and writes every accepted request to one capture file before it answers, so that nothing acknowledged is lost.
"""

import gzip
import struct
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from typing_extensions import Self

_REQUESTS: Final[dict[str, type[Message]]] = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
}
_HEADER: Final = struct.Struct(">cI")  # signal's first letter, length of the protobuf that follows


class Recorder:
    """Serves `http://127.0.0.1:<port>` until closed; use as a context manager.

    Raises `OSError` if the port is taken or the capture file can't be written.
    """

    def __init__(self, capture: Path, port: int = 0) -> None:
        """`capture`: file the requests are appended to. `port`: 0 takes a free one."""
        self._file: BinaryIO = capture.open("ab")
        self._lock = threading.Lock()
        recorder = self

        class Handler(_Handler):
            store = recorder._store

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="otlp-recorder", daemon=True)

    @property
    def endpoint(self) -> str:
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            self._file.close()

    def _store(self, signal: str, body: bytes) -> bool:
        with self._lock:
            if self._file.closed:  # a connection may outlive the server
                return False
            self._file.write(_HEADER.pack(signal[:1].encode(), len(body)) + body)
            self._file.flush()
            return True


def read_capture(capture: Path) -> Iterator[tuple[str, Any]]:
    """The (signal, request) pairs of a capture file, in the order they arrived; a cut last one is left out."""
    letters = {signal[:1].encode(): signal for signal in _REQUESTS}
    with capture.open("rb") as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            letter, length = _HEADER.unpack(header)
            if len(body := file.read(length)) < length:
                return
            signal = letters[letter]
            yield signal, _REQUESTS[signal].FromString(body)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Any

    def do_POST(self) -> None:
        """Take one OTLP request."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        signal = self.path.rstrip("/").removeprefix("/v1/")
        if signal not in _REQUESTS:
            return self._answer(404)
        if self.headers.get("Content-Type", "").split(";")[0] != "application/x-protobuf":
            return self._answer(415)
        try:
            body = _decompress(body, self.headers.get("Content-Encoding", ""))
            _REQUESTS[signal].FromString(body)
        except (DecodeError, OSError, zlib.error, EOFError):
            return self._answer(400)
        return self._answer(200 if self.store(signal, body) else 503)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        if status == 503:  # the file is closed: whoever comes next on this port has another
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Requests are not printed."""


def _decompress(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "deflate":
        return zlib.decompress(body)
    return body
