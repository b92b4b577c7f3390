"""Weights on their way to the engines: how many bytes each rollout worker is handed."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor
from verl_otel.patching import patches
from verl_otel.telemetry import weights
from verl_otel.telemetry.weights import Transfer

_NAME: Final = "verl_weights"


def wrap_update(original: Callable[..., Any]) -> Callable[..., Any]:
    """Count the tensors that an engine's adapter takes from its generator, as they pass."""

    @functools.wraps(original)
    def update_weights(self: Any, *args: Any, **kwargs: Any) -> Any:
        if patches(_NAME).active:
            with guard("counting weights"):
                if args:
                    args = (counted(args[0], weights.Transfer()), *args[1:])
                else:
                    kwargs["weights"] = counted(kwargs["weights"], weights.Transfer())
        return original(self, *args, **kwargs)

    return update_weights


def counted(tensors: Any, transfer: Transfer) -> Any:
    """The same tensors, of the same kind of iterator."""
    return _counted_async(tensors, transfer) if hasattr(tensors, "__aiter__") else _counted(tensors, transfer)


def _counted(tensors: Any, transfer: Transfer) -> Iterator[Any]:
    try:
        for one in tensors:
            transfer.add(read_size(one))
            yield one
            del one  # it may be gigabytes, and the next one is made before it would be let go
    finally:
        transfer.end()


async def _counted_async(tensors: Any, transfer: Transfer) -> AsyncIterator[Any]:
    try:
        async for one in tensors:
            transfer.add(read_size(one))
            yield one
            del one  # it may be gigabytes, and the next one is made before it would be let go
    finally:
        transfer.end()


def read_size(item: Any) -> int:
    """Bytes of a (name, tensor) pair, or of a list of them beside a mark, as sparse updates come."""
    with guard("reading a tensor's size"):
        named, other = item
        return sum(int(one.nbytes) for _, one in named) if isinstance(named, list) else int(other.nbytes)
    return 0


_ROLLOUT: Final = "verl.workers.rollout"


class WeightsInstrumentor(VerlInstrumentor):
    """Bytes of each weight update, from the engines' adapters in the rollout workers."""

    name = _NAME
    targets = (
        Target(f"{_ROLLOUT}.vllm_rollout.vllm_rollout", "ServerAdapter.update_weights", wrap_update, ("weights",)),
        Target(f"{_ROLLOUT}.sglang_rollout.sglang_rollout", "ServerAdapter.update_weights", wrap_update, ("weights",)),
        Target(
            f"{_ROLLOUT}.trtllm_rollout.trtllm_rollout",
            "ServerAdapter.update_weights",
            wrap_update,
            ("weights",),
            since="0.8.0",
        ),
    )
