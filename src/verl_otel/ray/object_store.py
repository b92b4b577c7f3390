"""Ray's object store on this node, as its raylet counts it."""

from collections.abc import Iterator
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from verl_otel.importing import importing
from verl_otel.ray import here
from verl_otel.semconv import hardware as names

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

TIMEOUT: Final = 0.8
"""Seconds; less than a collection waits for its sources."""


class ObjectStore:
    """The store of the node that this process is on."""

    def __init__(self) -> None:
        self._stub: Any = None
        self._since = time_ns()

    def read(self, time: int) -> "Iterator[Metric]":
        """Used and size, as of `time` (ns since the epoch); nothing where Ray isn't up, or is going down."""
        if not here.is_connected():
            self._stub = None
            return
        with importing():
            import grpc
            from ray.core.generated import node_manager_pb2 as messages

            from verl_otel.delivery.points import level

        asked = messages.GetNodeStatsRequest(include_memory_info=False)  # type: ignore[attr-defined] # it is generated
        try:
            if self._stub is None:
                self._stub = _connect()
            found = self._stub.GetNodeStats(asked, timeout=TIMEOUT).store_stats
        except (grpc.RpcError, LookupError):
            return
        yield level(names.OBJECT_STORE_USAGE, [({}, found.object_store_bytes_used)], self._since, time)
        # What Ray calls available is all that there is.
        yield level(names.OBJECT_STORE_LIMIT, [({}, found.object_store_bytes_avail)], self._since, time)


def _connect() -> Any:
    with importing():
        from ray._private.grpc_utils import init_grpc_channel
        from ray.core.generated import node_manager_pb2_grpc

    node = here.node()
    channel = init_grpc_channel(f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}")
    return node_manager_pb2_grpc.NodeManagerServiceStub(channel)  # type: ignore[no-untyped-call]
