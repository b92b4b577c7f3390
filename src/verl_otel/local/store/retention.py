"""Which runs go, so that the folder doesn't grow for ever: those that are old, then the oldest of what is too much."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from verl_otel.local.errors import LocalError
from verl_otel.local.store.store import Store
from verl_otel.local.store.summary import RUNNING

_DAY: Final = 86_400.0


@dataclass(frozen=True)
class Limits:
    """Days that a run is kept after its last data, bytes of all together; None: without end."""

    days: float | None = None
    bytes: int | None = None


def too_many(runs: Sequence[Mapping[str, Any]], limits: Limits, now: float) -> list[str]:
    """Ids of those that go, the oldest first; never one that runs. `now`: seconds since the epoch."""
    oldest = sorted((one for one in runs if one["status"] != RUNNING), key=lambda one: one["updated"])
    total = sum(one["bytes"] for one in runs)
    found = []
    for one in oldest:
        is_old = limits.days is not None and now - one["updated"] / 1e3 > limits.days * _DAY
        if not is_old and (limits.bytes is None or total <= limits.bytes):
            break
        found.append(str(one["id"]))
        total -= one["bytes"]
    return found


def apply(store: Store, limits: Limits) -> list[str]:
    """Remove them; ids of those that went."""
    found = too_many(store.runs.list(), limits, time.time())
    gone = []
    for run in found:
        with contextlib.suppress(LocalError):  # it goes on since, or somebody else removed it
            store.remove(run)
            gone.append(run)
    return gone
