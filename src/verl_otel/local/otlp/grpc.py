"""OTLP over gRPC: the Export methods of the three services."""

import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2
from typing_extensions import Self

from verl_otel.local.errors import LocalError
from verl_otel.local.journal import JournalFullError
from verl_otel.local.otlp.requests import MOST_IN, RequestError, check

_SERVICES: Final = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}
_THREADS: Final = 4
_PATIENCE: Final = 5.0


class GrpcReceiver:
    """Serves until it is left; use as a context manager."""

    def __init__(self, accept: Callable[[str, bytes], None], host: str, port: int, token: str | None = None) -> None:
        """`accept`: keeps a request; raises `JournalFullError` for one that is to come again.

        `port`: 0 takes a free one. Raises `LocalError` if it is taken.
        """
        self._accept = accept
        self._authorization = None if token is None else f"Bearer {token}"
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="otlp-grpc")
        self._server = grpc.server(
            self._pool,
            handlers=[self._handler(signal, name) for signal, name in _SERVICES.items()],
            # Without the last, two servers would share a port.
            options=(("grpc.max_receive_message_length", MOST_IN), ("grpc.so_reuseport", 0)),
        )
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            self.port = int(self._server.add_insecure_port(address))
        except RuntimeError:
            self.port = 0
        if not self.port:
            self._pool.shutdown()
            raise LocalError(f"port {port} on {host} is taken: choose another for OTLP over gRPC")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.stop(_PATIENCE).wait()
        self._pool.shutdown()

    def _handler(self, signal: str, service: str) -> Any:
        export = grpc.unary_unary_rpc_method_handler(lambda body, call: self._export(signal, body, call))
        return grpc.method_handlers_generic_handler(service, {"Export": export})

    def _export(self, signal: str, body: bytes, call: Any) -> bytes:
        if self._authorization is not None:
            shown = dict(call.invocation_metadata()).get("authorization", "")
            shown = shown if isinstance(shown, bytes) else shown.encode()
            if not hmac.compare_digest(shown, self._authorization.encode()):
                call.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is wrong or missing")
        try:
            check(signal, body)
            self._accept(signal, body)
        except RequestError as error:
            call.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except JournalFullError as error:
            call.set_trailing_metadata((("grpc-status-details-bin", _retry(error)),))
            call.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
        return b""


def _retry(error: JournalFullError) -> bytes:
    """Exporters take RESOURCE_EXHAUSTED as final unless it says when to come again."""
    details = Packed()
    details.Pack(error_details_pb2.RetryInfo(retry_delay=Duration(seconds=error.wait)))
    code = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
    return bytes(status_pb2.Status(code=code, message=str(error), details=[details]).SerializeToString())
