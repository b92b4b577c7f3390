"""An OTLP/HTTP endpoint that accepts everything and reads nothing: where our side sends while it is measured.

A process of its own, since a thread would take the interpreter's lock from what is measured.
"""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from benchmarks.children import serve


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take a request."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Requests are not printed."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # all processes of the growth benchmark connect at once


def main() -> None:
    """Serve until the input ends."""
    server = _Server(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    serve(endpoint=lambda: f"http://127.0.0.1:{server.server_address[1]}", cpu=time.process_time)


if __name__ == "__main__":
    main()
