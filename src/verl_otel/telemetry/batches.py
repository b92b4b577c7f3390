"""What the trainer asks its rollouts for and what it gets: progress while it waits, and what was lost at the end.

A group is the trajectories of one prompt. The trainer knows groups while they run; each trajectory is known, by name,
only where it runs (`trajectories`) and when a batch is made of it.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass
from itertools import islice
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span

from verl_otel import runtime, semconv
from verl_otel.guard import guard
from verl_otel.telemetry import sampling, scope
from verl_otel.telemetry.instruments import count, measure, produce
from verl_otel.telemetry.origins import Origin

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

MOST_NAMED: Final = 64
"""Trajectories that a batch's span names, and is linked to."""
MOST_GROUPS: Final = 100_000
"""Groups whose size is remembered until a batch is made of them."""

PENDING: Final = "pending"
STARTED: Final = "running"
FINISHED: Final = "finished"
FAILED: Final = "failed"


@dataclass(frozen=True)
class Dispatch:
    """Prompts handed to the rollouts: the trajectories asked for, by uid."""

    step: int | None
    sizes: Mapping[str, int]
    validation: bool = False


@dataclass(frozen=True)
class Taken:
    """A trajectory that a batch was made of; versions of weights, and None where it isn't said."""

    uid: str
    session: int
    output: int
    oldest: int | None = None
    newest: int | None = None
    origin: Origin = Origin()  # noqa: RUF009 - it can't be changed


class _Progress:
    """Of training or of validation. Rates count from the last batch, or from the first dispatch after a rest."""

    def __init__(self) -> None:
        self.groups: dict[str, int] = {}
        self.ended_before = 0
        self.since = monotonic()

    def look(self, groups: Mapping[str, int]) -> None:
        self.groups = dict(groups)
        self.ended_before = min(self.ended_before, self.ended())

    def restart(self) -> None:
        self.since, self.ended_before = monotonic(), self.ended()

    def take(self, count: int) -> None:
        left = self.ended() - count
        self.groups |= {FINISHED: max(0, left), FAILED: 0}
        self.restart()

    def is_idle(self) -> bool:
        return not (self.groups.get(PENDING) or self.groups.get(STARTED))

    def ended(self) -> int:
        return self.groups.get(FINISHED, 0) + self.groups.get(FAILED, 0)

    def rate(self) -> float:
        seconds = monotonic() - self.since
        return max(0, self.ended() - self.ended_before) / seconds if seconds > 0 else 0.0


_lock = threading.Lock()
_sizes: OrderedDict[str, int] = OrderedDict()
_progress: dict[bool, _Progress] = {}
_taken_at: dict[bool, int] = {}


class Dispatching:
    """The call that hands a batch over; while it lasts, what is sent knows which of it is traced."""

    def __init__(self, batch: Dispatch) -> None:
        self._token: Token[Context] | None = None
        here = scope.current()
        validation = batch.validation or here.validation
        step = here.step if batch.step is None else batch.step
        with _lock:
            _sizes.update(batch.sizes)
            while len(_sizes) > MOST_GROUPS:
                _sizes.popitem(last=False)
            progress = _progress.setdefault(validation, _Progress())
            if progress.is_idle():
                progress.restart()
        runtime.current()
        count(semconv.ROLLOUT_DISPATCHED, sum(batch.sizes.values()), {semconv.VALIDATION: validation})
        each = ((uid, session) for uid, size in batch.sizes.items() for session in range(size))
        share = sampling.bound(step, each, validation=validation)
        self._token = context.attach(scope.within(here._replace(share=share)))

    def stop(self) -> None:
        """It is handed over."""
        token, self._token = self._token, None
        if token is not None:
            with guard("leaving a dispatch"):
                context.detach(token)

    def fail(self, error: BaseException) -> None:
        """It could not be handed over."""
        self.stop()


def looked(groups: Mapping[str, int], *, validation: bool) -> None:
    """The trainer looked at its buffer: groups there by state, one of the words above."""
    with _lock:
        _progress.setdefault(validation, _Progress()).look(groups)


def taken(batch: Sequence[Taken], step: int, groups: int, *, validation: bool) -> None:
    """A batch of so many groups was made for `step`: name it on the current span, and count what is missing from it.

    A group of which every trajectory failed is missing as a whole.
    """
    span = trace.get_current_span()
    _name(span, batch)
    labels = {semconv.VALIDATION: validation}
    if not validation:
        for one in batch:
            if one.oldest is not None:
                # As verl's training/off_policy/trajectory_staleness_worst: the weights of step s - 1 make step s.
                measure(semconv.ROLLOUT_STALENESS, step - 1 - one.oldest, labels, span)
    there: dict[str, set[int]] = {}
    for one in batch:
        there.setdefault(one.uid, set()).add(one.session)
    _taken_at[validation] = time_ns()
    with _lock:
        sizes = {uid: _sizes.pop(uid, len(sessions)) for uid, sessions in there.items()}
        usual = max(sizes.values(), default=next(reversed(_sizes.values()), 1))
        if (progress := _progress.get(validation)) is not None:
            progress.take(groups)
    short = [size - len(there[uid]) for uid, size in sizes.items() if size > len(there[uid])]
    short += [usual] * max(0, groups - len(there))
    # A zero is worth a point, so that an alert has something to compare with.
    count(semconv.ROLLOUT_SHORT, len(short), labels)
    count(semconv.ROLLOUT_MISSING, sum(short), labels)


def _name(span: Span, batch: Sequence[Taken]) -> None:
    # Validation takes several batches within one phase.
    before = getattr(span, "attributes", None) or {}
    names = (*before.get(semconv.ROLLOUT_CONSUMED, ()), *(f"{one.uid}_{one.session}_{one.output}" for one in batch))
    total = before.get(semconv.ROLLOUT_CONSUMED_COUNT, 0) + len(batch)
    span.set_attributes({semconv.ROLLOUT_CONSUMED: names[:MOST_NAMED], semconv.ROLLOUT_CONSUMED_COUNT: total})
    traced = (one.origin.trajectory for one in batch if one.origin.trajectory.trace_flags.sampled)
    for trajectory in islice(traced, max(0, MOST_NAMED - len(getattr(span, "links", None) or ()))):
        span.add_link(trajectory)


def produced(time: int) -> "Iterable[Metric]":
    """Groups by state, how fast they end, and how long that will take."""
    from verl_otel.delivery.points import gauge

    if _taken_at:
        moments = [({semconv.VALIDATION: one}, at / 1e9) for one, at in dict(_taken_at).items()]
        yield gauge(semconv.ROLLOUT_BATCH, moments, time)
    with _lock:
        found = {validation: (dict(one.groups), one.rate()) for validation, one in _progress.items() if one.groups}
    if not found:
        return
    states: list[tuple[dict[str, Any], float]] = [
        ({semconv.VALIDATION: validation, semconv.ROLLOUT_STATE: state}, count)
        for validation, (groups, _) in found.items()
        for state, count in groups.items()
    ]
    yield gauge(semconv.ROLLOUT_GROUPS, states, time)
    yield gauge(semconv.ROLLOUT_RATE, [({semconv.VALIDATION: one}, rate) for one, (_, rate) in found.items()], time)
    left = [
        ({semconv.VALIDATION: one}, (groups.get(PENDING, 0) + groups.get(STARTED, 0)) / rate)
        for one, (groups, rate) in found.items()
        if rate > 0
    ]
    if left:
        yield gauge(semconv.ROLLOUT_TIME_LEFT, left, time)


produce(produced)


def reset() -> None:
    """Forget everything, in a forked child and between tests."""
    global _lock
    _lock = threading.Lock()
    _sizes.clear()
    _progress.clear()
    _taken_at.clear()


os.register_at_fork(after_in_child=reset)
