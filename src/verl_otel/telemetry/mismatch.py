"""Whether engine and trainer agree: how far their probabilities of the same tokens are apart, by the weights' age.

A batch's mean hides a part of it that was made with stale or broken weights.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from verl_otel import semconv
from verl_otel.telemetry.instruments import produce

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.sdk.metrics.export import Metric

_last: dict[int, float] = {}


def measured(differences: Sequence[float], ages: Sequence[int]) -> None:
    """Of each trajectory of a step: the mean absolute difference over its tokens, and how many versions late it is."""
    by_age: dict[int, list[float]] = defaultdict(list)
    for difference, age in zip(differences, ages, strict=True):
        by_age[age].append(difference)
    _last.clear()
    _last.update({age: sum(found) / len(found) for age, found in by_age.items()})


def produced(time: int) -> "Iterable[Metric]":
    """The last step's means."""
    from verl_otel.delivery.points import gauge

    if _last:
        points = [({semconv.WEIGHTS_AGE: age}, mean) for age, mean in dict(_last).items()]
        yield gauge(semconv.MISMATCH, points, time)


def reset() -> None:
    """Forget everything, between tests."""
    _last.clear()


produce(produced)
