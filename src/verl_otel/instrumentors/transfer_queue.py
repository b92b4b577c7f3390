"""TransferQueue: the operations by which trainer, workers and agent loops hand batches to each other."""

from collections.abc import Callable
from typing import Any, Final

from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed
from verl_otel.patching import patches
from verl_otel.telemetry import queues

_NAME: Final = "verl_transfer_queue"
_own: Final = patches(_NAME)
_OPERATIONS: Final = ("kv_batch_put", "kv_batch_get", "kv_clear", "async_kv_batch_put", "async_kv_batch_get")


def start_operation(name: str) -> Callable[..., Observation | None]:
    """An operation of TransferQueue's interface."""

    def start(keys: Any = None, partition_id: Any = None, *_: Any, **__: Any) -> Observation | None:
        return queues.start(name, 1 if isinstance(keys, str) else len(keys), str(partition_id))

    return start


class TransferQueueInstrumentor(VerlInstrumentor):
    """Puts and gets of whole batches; the many small ones, a tag each, are left alone."""

    name = _NAME
    targets = tuple(
        Target("transfer_queue", name, observed(_own, start_operation(name)), since="0.8.0") for name in _OPERATIONS
    )
