"""An OTLP sink for tests over HTTP or gRPC on loopback that answers by a script, and keeps what it accepted.

It stands for a collector where a test needs an answer that a real one gives only when it is ill.
"""

import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
}


class HttpSink:
    """`answers`: (status, headers, body) for the first requests, one each; then 200."""

    def __init__(self, *answers, port=0):
        self.answers, self.accepted, self.headers = deque(answers), [], []
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                sink.headers.append(dict(self.headers))
                status, headers, answer = sink.answers.popleft() if sink.answers else (200, {}, b"")
                if status == 200:
                    sink.accepted.append((self.path, body))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(answer))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def spans(self):
        return [name for path, body in self.accepted if path == "/v1/traces" for name in span_names(body)]


class GrpcSink:
    """A gRPC server for all three services; `refuse` names a status code to answer with until it is None."""

    def __init__(self, refuse=None):
        import grpc

        self.refuse, self.accepted = refuse, []
        self._server = grpc.server(ThreadPoolExecutor(4))

        def export(body, call):
            if self.refuse is not None:
                call.abort(self.refuse, "as the test wants")
            self.accepted.append(body)
            return b""

        class Handler(grpc.GenericRpcHandler):
            def service(self, details):
                if details.method.endswith("/Export"):
                    return grpc.unary_unary_rpc_method_handler(export)
                return None

        self._server.add_generic_rpc_handlers((Handler(),))
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(None).wait()


def span_names(body):
    request = ExportTraceServiceRequest.FromString(body)
    return [span.name for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]
