"""Whether engine and trainer agree: how far their probabilities of the same tokens are apart, by weights and replica.

A batch's mean hides a part of it that was made with stale or broken weights.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context, trace

from verl_otel import runtime, semconv
from verl_otel.telemetry import events
from verl_otel.telemetry.instruments import produce
from verl_otel.telemetry.origins import Origin

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

WORST: Final = 8
"""Trajectories of a step that an event tells of, those with the largest difference; all where tokens are asked for."""
MOST_TOKENS: Final = 16_384
"""Of one trajectory in an event."""
MOST_OF_A_STEP: Final = 500_000
"""Tokens of all events of a step, the worst trajectories first: each is a number of its own until it is encoded."""

_last: dict[tuple[int | None, str | None], float] = {}


@dataclass(frozen=True)
class Compared:
    """A trajectory's tokens, as the engine that made them and the trainer see them.

    `difference`: mean over its tokens of |p(engine) - p(trainer)|, as verl's `rollout_probs_diff_mean` of one row.
    `age`: versions that its newest weights are late; None where it isn't known. `row`: in the batch.
    """

    row: int
    difference: float
    age: int | None = None
    origin: Origin = Origin()  # noqa: RUF009 - it can't be changed


def measured(batch: Sequence[Compared], tokens: Callable[[int], Sequence[float]]) -> None:
    """A step's batch was compared; `tokens` of a row: log p(trainer) - log p(engine) of each token of its response."""
    groups: dict[tuple[int | None, str | None], list[float]] = defaultdict(list)
    for one in batch:
        groups[one.age, one.origin.server].append(one.difference)
    _last.clear()
    _last.update({key: sum(found) / len(found) for key, found in groups.items()})
    wanted = runtime.current().settings.token_mismatch
    told = heapq.nlargest(len(batch) if wanted else WORST, batch, key=attrgetter("difference"))
    left = MOST_OF_A_STEP if wanted else 0
    for one in told:
        if one.origin.trajectory.trace_flags.sampled:
            found = tokens(one.row)[:MOST_TOKENS] if left > 0 else ()
            left -= len(found)
            _tell(one, found if left >= 0 and found else None)


def _tell(one: Compared, tokens: Sequence[float] | None) -> None:
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(one.origin.trajectory)))
    try:
        attributes = {
            semconv.MISMATCH_MEAN: one.difference,
            semconv.MISMATCH_TOKENS: tokens,
            semconv.WEIGHTS_AGE: one.age,
            **_server(one.origin.server),
        }
        events.emit(semconv.EVENT_MISMATCH, attributes)
    finally:
        context.detach(token)


def _server(address: str | None) -> dict[str, Any]:
    if address is None:
        return {}
    host, _, port = address.rpartition(":")
    return {semconv.SERVER_ADDRESS: host.strip("[]"), semconv.SERVER_PORT: int(port)}


def produced(time: int) -> "Iterable[Metric]":
    """The last step's means."""
    from verl_otel.delivery.points import gauge

    points = [
        ({**({} if age is None else {semconv.WEIGHTS_AGE: age}), **_server(server)}, mean)
        for (age, server), mean in dict(_last).items()
    ]
    if points:
        yield gauge(semconv.MISMATCH, points, time)


def reset() -> None:
    """Forget everything, between tests."""
    _last.clear()


produce(produced)
