"""TransferQueue: the operations by which trainer, workers and agent loops hand on batches, and its own metrics."""

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed, read_after
from verl_otel.patching import patches
from verl_otel.telemetry import instruments, origins, queues

_NAME: Final = "verl_transfer_queue"
_own: Final = patches(_NAME)
_OPERATIONS: Final = ("kv_batch_put", "kv_batch_get", "kv_clear", "async_kv_batch_put", "async_kv_batch_get")
_FROM_AGENT_LOOPS: Final = "async_kv_batch_put"
_SOURCE: Final = "transfer_queue"
_CONTROLLER: Final = "controller"


def start_operation(name: str) -> Callable[..., Observation | None]:
    """An operation of TransferQueue's interface."""

    def start(keys: Any = None, partition_id: Any = None, *_: Any, **__: Any) -> Observation | None:
        return queues.start(name, 1 if isinstance(keys, str) else len(keys), str(partition_id))

    return start


def say_origin(original: Callable[..., Any]) -> Callable[..., Any]:
    """An agent loop hands over what it made: the tags, which nothing trains on, get one of ours."""

    @functools.wraps(original)
    async def async_kv_batch_put(*args: Any, **kwargs: Any) -> Any:
        if _own.active and kwargs.get("tags"):
            with guard("telling a trajectory's origin"):
                if (ours := origins.carried()) is not None:
                    kwargs = {**kwargs, "tags": [{**tag, origins.TAG: ours} for tag in kwargs["tags"]]}
        return await original(*args, **kwargs)

    return async_kv_batch_put


NO_PORT: Final = -1
"""Asks a metrics exporter of TransferQueue's to collect, but to serve nothing; one without us refuses such a port."""


def start_metrics(config: Any, *_: Any, **__: Any) -> None:
    """TransferQueue is up: where it was started here, and the user didn't ask for its metrics, have them collected."""
    interface = sys.modules["transfer_queue.interface"]
    storage = (getattr(interface, "_TQ_STORAGE", None) or {}).get("SimpleStorage")
    controller = getattr(interface, "_TQ_CONTROLLER", None)
    if controller is None or not storage or config is None or config.get("metrics", {}).get("enabled", False):
        return
    if not instruments.are_delivered():
        return
    # Nothing waits for these calls: one that fails costs nobody anything.
    for unit in storage.values():
        unit.start_metrics.remote(port=NO_PORT)
    controller.start_metrics.remote(port=NO_PORT)
    controller.register_storage_units_for_metrics.remote(config.backend.SimpleStorage.zmq_info)


def wrap_exporter(original: Callable[..., str]) -> Callable[..., str]:
    """In the actors: bridge the exporter's registry, and open a port for it only where the user asked for one."""

    @functools.wraps(original)
    def start(self: Any, *args: Any, **kwargs: Any) -> str:
        if _own.active:
            with guard("bridging TransferQueue's metrics"):
                from verl_otel.bridges import prometheus  # not at the top: it needs the SDK

                prometheus.bridge(f"{_SOURCE}.{self._role}", lambda: self.registry)
        if kwargs.get("port") != NO_PORT:
            return original(self, *args, **kwargs)
        if self._role == _CONTROLLER:
            threading.Thread(target=self._collect_loop, name="TQMetricsCollectorThread", daemon=True).start()
        return ""

    return start


class TransferQueueInstrumentor(VerlInstrumentor):
    """Puts and gets of whole batches; the many small ones, a tag each, are left alone."""

    name = _NAME
    targets = (
        *(Target("transfer_queue", one, observed(_own, start_operation(one)), since="0.8.0") for one in _OPERATIONS),
        Target("transfer_queue", _FROM_AGENT_LOOPS, say_origin, ("tags",), since="0.8.0"),
        Target(
            "transfer_queue", "init", read_after(_own, "starting TransferQueue's metrics", start_metrics), since="0.9.1"
        ),
        Target("transfer_queue.metrics", "TQMetricsExporter.start", wrap_exporter, ("port",), since="0.9.1"),
    )
