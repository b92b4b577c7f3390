"""An OTLP sink for tests over HTTP or gRPC on loopback that answers by a script, and keeps what it accepted.

It stands for a collector where a test needs an answer that a real one gives only when it is ill. A `Relay` in front of
it stands for a network that is.
"""

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

REQUESTS = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
    "logs": ExportLogsServiceRequest,
}


class _Sink:
    """What was accepted, read; `bodies` gives the requests of a signal."""

    def spans(self):
        return [name for body in self.bodies("traces") for name in span_names(body)]

    def steps(self):
        """Values of the snapshots' marks."""
        return [step for body in self.bodies("metrics") for step in snapshot_steps(body)]

    def records(self):
        """Name of each event, text of each message."""
        return [name for body in self.bodies("logs") for name in record_names(body)]


class HttpSink(_Sink):
    """`answers`: (status, headers, body) for the first requests, one each, or a function that is given the handler
    before the body is read and does the rest; then `otherwise`, which is 200. `tls`: files of certificate and key, and
    of a CA whose certificates clients must show, if there is a third."""

    def __init__(self, *answers, host="127.0.0.1", port=0, tls=None):
        self.answers, self.otherwise = deque(answers), (200, {}, b"")
        self.accepted, self.headers, self.times = [], [], []
        self._connections = set()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                sink._connections.add(self.connection)

            def finish(self):
                sink._connections.discard(self.connection)
                with contextlib.suppress(OSError):
                    super().finish()

            def do_POST(self):
                sink.times.append(time.monotonic())
                answer = sink.answers.popleft() if sink.answers else sink.otherwise
                if callable(answer):
                    sink.headers.append(dict(self.headers))
                    self.close_connection = True
                    return answer(self)
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:
                    return None
                sink.headers.append(dict(self.headers))
                status, headers, answer = answer
                if status == 200:
                    sink.accepted.append((self.path, body))
                return respond(self, status, headers, answer)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
            daemon_threads = True

            def handle_error(self, *_):
                """A client that leaves is no news."""

        self._server = Server((host, port), Handler)
        self.port = self._server.server_address[1]
        if tls is not None:
            secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            secure.load_cert_chain(*tls[:2])
            if tls[2:]:
                secure.load_verify_locations(tls[2])
                secure.verify_mode = ssl.CERT_REQUIRED
            self._server.socket = secure.wrap_socket(self._server.socket, server_side=True)
        self.endpoint = f"http{'s' if tls else ''}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        # A client's open connection would still be served.
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def bodies(self, signal):
        return [body for path, body in list(self.accepted) if path.endswith(f"/v1/{signal}")]


def respond(handler, status, headers, body):
    handler.send_response(status)
    for name, value in {**headers, "Content-Length": str(len(body))}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


class GrpcSink(_Sink):
    """A gRPC server for all three services; `refuse` names a status code to answer with until it is None.

    `answers`: for the first calls, one each, a response or a function that is given the call; then an empty response.
    """

    def __init__(self, *answers, refuse=None, host="127.0.0.1", port=0, tls=None):
        import grpc

        self.answers, self.refuse = deque(answers), refuse
        self.accepted, self.headers, self.times, self._signals = [], [], [], []
        self._server = grpc.server(ThreadPoolExecutor(4))

        def export(signal, body, call):
            self.times.append(time.monotonic())
            self.headers.append(dict(call.invocation_metadata()))
            if self.refuse is not None:
                call.abort(self.refuse, "as the test wants")
            answer = self.answers.popleft() if self.answers else b""
            answer = answer(call) if callable(answer) else answer
            self._signals.append(signal)
            self.accepted.append(body)
            return answer

        class Handler(grpc.GenericRpcHandler):
            def service(self, details):
                if details.method.endswith("/Export"):
                    signal = details.method.split(".")[3]  # opentelemetry.proto.collector.trace.v1...
                    signal = "traces" if signal == "trace" else signal
                    return grpc.unary_unary_rpc_method_handler(lambda body, call: export(signal, body, call))
                return None

        self._server.add_generic_rpc_handlers((Handler(),))
        address = f"{f'[{host}]' if ':' in host else host}:{{}}"
        if tls is None:
            self.port = self._server.add_insecure_port(address.format(port))
        else:
            certificate, key, *clients = (Path(one).read_bytes() for one in tls)
            secure = grpc.ssl_server_credentials([(key, certificate)], *clients, require_client_auth=bool(clients))
            self.port = self._server.add_secure_port(address.format(port), secure)
        self.endpoint = f"http{'s' if tls else ''}://{address.format(self.port)}"

    def __enter__(self):
        self._server.start()
        return self

    def __exit__(self, *_):
        self._server.stop(None).wait()

    def bodies(self, signal):
        return [body for one, body in zip(list(self._signals), list(self.accepted), strict=False) if one == signal]


class Relay:
    """TCP in front of a sink, resetting its connections by `faults`, one each, then only passing bytes on.

    A fault is how many bytes the client sends, and the server after that, until the connection is reset. `trickle`: a
    few bytes at a time, as long as it is true. `proxy`: it takes a CONNECT first, whose request line `asked` keeps.
    """

    def __init__(self, sink, *faults, trickle=False, proxy=False):
        self.faults, self.trickle, self.asked = deque(faults), trickle, []
        self._target, self._proxy = sink.port, proxy
        self._listening = socket.socket()
        if trickle:
            self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen(64)
        self.port = self._listening.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listening.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        fault = self.faults.popleft() if self.faults else None
        with contextlib.suppress(OSError), client, socket.create_connection(("127.0.0.1", self._target)) as server:
            if self._proxy:
                self._be_asked(client)
            self._pass_on(client, server, fault)

    def _be_asked(self, client):
        request = b""
        while b"\r\n\r\n" not in request:
            request += client.recv(4096)
        self.asked.append(request.split(b"\r\n")[0].decode())
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

    def _pass_on(self, client, server, fault):
        sent = answered = 0
        while True:
            for one in select.select([client, server], [], [])[0]:
                if not (chunk := one.recv(512 if self.trickle else 65536)):
                    return
                if one is client:
                    sent += len(chunk)
                    server.sendall(chunk)
                    time.sleep(0.05 if self.trickle else 0)
                else:
                    if fault is not None and sent >= fault[0]:
                        chunk = chunk[: fault[1] - answered]
                        answered += len(chunk)
                    client.sendall(chunk)
                if fault is not None and sent >= fault[0] and answered >= fault[1]:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return


def span_names(body):
    request = ExportTraceServiceRequest.FromString(body)
    return [span.name for one in request.resource_spans for scope in one.scope_spans for span in scope.spans]


def snapshot_steps(body):
    request = ExportMetricsServiceRequest.FromString(body)
    metrics = [metric for one in request.resource_metrics for scope in one.scope_metrics for metric in scope.metrics]
    return [int(one.gauge.data_points[0].as_double) for one in metrics if one.name == "verl.step.snapshot"]


def record_names(body):
    request = ExportLogsServiceRequest.FromString(body)
    records = [record for one in request.resource_logs for scope in one.scope_logs for record in scope.log_records]
    # Before OTLP 1.5 the name is an attribute.
    return [
        one.body.string_value
        or getattr(one, "event_name", "")
        or next(pair.value.string_value for pair in one.attributes if pair.key == "event.name")
        for one in records
    ]
