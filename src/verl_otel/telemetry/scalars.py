"""The scalars a trainer logs: a snapshot for each call, and the last values again at the interval.

The training thread stamps and queues; what is metric data, `scalar_store` makes in the gatherer's thread.
"""

import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from verl_otel import runtime
from verl_otel.guard import guard
from verl_otel.telemetry.instruments import produce

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

    from verl_otel.telemetry.scalar_store import ScalarStore


@dataclass(frozen=True)
class ScalarName:
    """How a key is exported: metric name, UCUM unit, attributes beside the key, and what its value is multiplied by."""

    name: str
    unit: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    scale: float = 1.0


Describe = Callable[[str], ScalarName]

MAX_NAME: Final = 255
"""Longest metric name that OpenTelemetry's API allows."""


@functools.cache
def _store() -> "ScalarStore":
    from verl_otel.telemetry.scalar_store import ScalarStore

    return ScalarStore()


def log(
    data: Mapping[Any, Any], step: Any, describe: Describe, more: "Callable[[int], list[Metric]]" = lambda time: []
) -> None:
    """Stamp and queue what a trainer logs for `step`. Copies the mapping, converts nothing, waits for nothing.

    `more`: metric data of the step that isn't the trainer's, made later for the same time.
    """
    current = runtime.current()
    if (reader := current.pipeline.reader) is None:
        return
    now, copied, most = time_ns(), _settled({**data}), current.settings.max_keys
    reader.put_snapshot(lambda: [*_store().snapshot(copied, int(step), now, describe, most), *more(now)])


def _settled(data: dict[Any, Any]) -> dict[Any, Any]:
    """With copies of arrays, which the trainer may go on to change; a GPU's are left alone, a copy would be queued."""
    for key, value in data.items():
        kind = type(value).__name__
        if kind in ("ndarray", "Tensor", "Parameter"):
            with guard("scalar"):
                if kind == "ndarray" and value.size == 1:
                    data[key] = value.copy()
                elif kind != "ndarray" and value.device.type == "cpu" and value.numel() == 1:
                    data[key] = value.detach().clone()
    return data


def repeated(time: int) -> "Iterable[Metric]":
    """Producer of the last values, so that a backend that forgets silent series keeps them between steps."""
    return _store().repeated(time)


def to_number(value: Any) -> float | None:
    """A float for Python, NumPy and torch numbers, bools and arrays of one element; None for anything else.

    Integers beyond float's range are infinite, as they are for every backend. Raises what the value's own conversion
    raises.
    """
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if value is None or isinstance(value, str | bytes):
        return None
    if isinstance(value, list | tuple):
        return to_number(value[0]) if len(value) == 1 else None
    size = getattr(value, "numel", None) or getattr(value, "size", None)  # torch, NumPy
    if (size() if callable(size) else size) != 1:
        return None
    number = value.item()
    return to_number(number) if isinstance(number, bool | int | float) else None


def plain(text: str) -> str:
    """A key in OpenTelemetry's letters: lower case, `/` to `.`, anything else but letters, digits and `.` to `_`."""
    return "".join(
        one if one.isascii() and (one.isalnum() or one == ".") else "_"
        for one in text.strip("/").lower().replace("/", ".")
    )


def reset() -> None:
    """Forget everything, in a forked child and between tests."""
    _store.cache_clear()


os.register_at_fork(after_in_child=reset)


produce(repeated)
