"""Which trajectories are traced: a share by hash, and at most so many of a step; whole traces or none.

The share of a trajectory is a hash of run, step, uid and session, so that every process comes to the same answer, and
so does whoever has these four.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from verl_otel import runtime
from verl_otel.telemetry import scope

MOST_STEPS: Final = 64
"""Steps whose cap is remembered: batches of several may be under way."""

_left: OrderedDict[tuple[int, bool], int] = OrderedDict()
_lock = threading.Lock()


def share(run_id: str | None, step: int | None, uid: str | None, session: int | None) -> float:
    """A number in [0, 1), evenly spread: the first 64 bits of SHA-256 of `run/step/uid/session`, as a fraction."""
    digest = hashlib.sha256(f"{run_id}/{step}/{uid}/{session}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def keeps(step: int | None, uid: str | None, session: int | None) -> bool:
    """Whether a trajectory that was dispatched by the current scope is traced."""
    settings, bound = runtime.current().settings, scope.current().share
    limit = settings.rollout_ratio if bound is None else min(bound, settings.rollout_ratio)
    return limit >= 1 or share(settings.run_id, step, uid, session) < limit


def bound(step: int | None, dispatched: Iterable[tuple[str, int]], *, validation: bool) -> float | None:
    """The share below which the trajectories (uid, session) of a batch are traced, by the step's cap; None for all.

    Of a step that dispatches several batches, the later ones get what the earlier left; a batch of no known step is one
    by itself.
    """
    settings = runtime.current().settings
    if not settings.rollout_cap:
        return None
    shares = sorted(share(settings.run_id, step, uid, session) for uid, session in dispatched)
    chosen = [one for one in shares if one < settings.rollout_ratio]
    if step is None:
        return None if len(chosen) <= settings.rollout_cap else chosen[settings.rollout_cap]
    with _lock:
        left = _left.pop((step, validation), settings.rollout_cap)
        _left[step, validation] = max(0, left - len(chosen))
        while len(_left) > MOST_STEPS:
            _left.popitem(last=False)
    return None if len(chosen) <= left else chosen[left]


def reset() -> None:
    """Forget all steps, between tests."""
    _left.clear()
