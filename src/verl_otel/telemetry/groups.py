"""What a step can learn from: groups whose rewards are all equal have no advantage, and teach nothing."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from verl_otel import semconv
from verl_otel.telemetry.instruments import count, produce

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.sdk.metrics.export import Metric

MIXED: Final = "mixed"
ALL_RIGHT: Final = "all_right"
ALL_WRONG: Final = "all_wrong"

_shares: dict[str, float] = {}


def signal(rewards: Sequence[float]) -> str | None:
    """Which of the words above a group of rewards is; None for a group of one, which is no group.

    All equal counts as right above 0: verl's own rule rewards give 1 or 0, and its penalties are negative.
    """
    if len(rewards) < 2 or any(math.isnan(one) for one in rewards):
        return None
    if max(rewards) > min(rewards):
        return MIXED
    return ALL_RIGHT if rewards[0] > 0 else ALL_WRONG


def trained(groups: Mapping[str, Sequence[float]]) -> None:
    """A step trains on these: the rewards of each group's trajectories, by uid."""
    found = Counter(one for one in map(signal, groups.values()) if one is not None)
    total = sum(found.values())
    if total:
        for kind in (MIXED, ALL_RIGHT, ALL_WRONG):
            count(semconv.GROUP_SIGNALS, found[kind], {semconv.GROUP_SIGNAL: kind})
        _shares.update({kind: found[kind] / total for kind in (ALL_RIGHT, ALL_WRONG)})


def produced(time: int) -> "Iterable[Metric]":
    """The last step's shares."""
    from verl_otel.delivery.points import gauge

    if _shares:
        points = [({semconv.GROUP_SIGNAL: kind}, share) for kind, share in _shares.items()]
        yield gauge(semconv.GROUP_ZERO_VARIANCE, points, time)


produce(produced)


def reset() -> None:
    """Forget everything, between tests."""
    _shares.clear()
