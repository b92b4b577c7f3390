"""Stands in for `rl-insight server`, which binds every interface with no option not to, and for Tempo behind it.

A process of its own, as theirs is. It answers what the client asks at its start, and counts the spans that arrive.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.children import serve

_spans = 0


class _Handler(BaseHTTPRequestHandler):
    def _reply(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """Where everything is: here."""
        assert isinstance(self.server, ThreadingHTTPServer)
        port = self.server.server_port
        here = {"status": "ok", "otlp_port": port, "prometheus_port": None, "grafana_port": None}
        self._reply(json.dumps(here).encode())

    def do_POST(self) -> None:
        """Scrape targets, or traces."""
        global _spans
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            _spans += sum(len(scope.spans) for one in request.resource_spans for scope in one.scope_spans)
            self._reply(b"", "application/x-protobuf")
        else:
            self._reply(b"{}")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Requests are not printed."""


def main() -> None:
    """Serve until the input ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    serve(endpoint=lambda: f"http://127.0.0.1:{server.server_address[1]}", spans=lambda: _spans)


if __name__ == "__main__":
    main()
