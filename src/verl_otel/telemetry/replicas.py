"""A replica of an engine, as its server's process sees it: who it is, what it works on, and when it was busy.

A busy interval is a span of its own, cut at most every 10 s, so that a replica that never rests is seen while it works.
"""

import os
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from opentelemetry.context import Context

from verl_otel import runtime, semconv
from verl_otel.telemetry import scope, whoami
from verl_otel.telemetry.instruments import count, produce
from verl_otel.telemetry.recording import Recording

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

ROLLOUT: Final = "rollout"
PARKED: Final = "parked"
RUNNING: Final = "running"
LONGEST_INTERVAL: Final = 9.0
"""Seconds of a busy interval after which it is cut, at the next look."""


@dataclass(frozen=True)
class Replica:
    """`role`: rollout, prefill, decode, reward or teacher; with `rank` it is unique. `engine`: vllm, sglang, ...

    `member`: of several servers of one role in a replica.
    """

    engine: str
    role: str = ROLLOUT
    rank: int | None = None
    member: int | None = None

    @property
    def labels(self) -> dict[str, Any]:
        """On everything that it does."""
        named = {semconv.ROLE: self.role, semconv.GEN_AI_PROVIDER_NAME: self.engine}
        return {**named, semconv.REPLICA: self.rank} if self.rank is not None else named

    @property
    def lane(self) -> str | None:
        """Its row in a state timeline."""
        if self.rank is None:
            return None
        row = f"{'replica' if self.role == ROLLOUT else self.role}/{self.rank}"
        return row if self.member is None else f"{row}.{self.member}"


class Busy(NamedTuple):
    """An interval in which a replica had something to work on; `started_at`: ns since the epoch."""

    replica: Replica
    started_at: int
    seconds: float
    requests: int
    tokens: int
    step: int | None
    weights: int | None


class _State:
    """What this process's replica does; guarded by `_lock`, since the gatherer's thread cuts intervals."""

    def __init__(self) -> None:
        self.replica = Replica("unknown")
        self.weights: int | None = None
        self.in_flight: Counter[str] = Counter()
        self.since: float | None = None
        self.started_at = 0
        self.requests = 0
        self.tokens = 0
        self.step: int | None = None
        self.busy = 0.0
        self.looked = monotonic()
        self.known = False


_lock = threading.Lock()
_state = _State()


def serves(replica: Replica) -> None:
    """This process serves that replica."""
    _state.replica, _state.known = replica, True
    whoami.is_(replica.role, replica=replica.rank)


def replica() -> Replica:
    """The replica of this process."""
    return _state.replica


def identity() -> dict[str, Any]:
    """Role and number of this process's replica, for metrics that the engine names itself."""
    one = _state.replica
    return {semconv.ROLE: one.role} | ({} if one.rank is None else {semconv.REPLICA: one.rank})


def weights_are(version: int | None) -> None:
    """Its weights are of that version now."""
    _state.weights = version


def weights() -> int | None:
    """Version of its weights; None before the first."""
    return _state.weights


def entered(state: str, step: int | None) -> None:
    """A request came, for that training step: into one of the states above."""
    with _lock:
        _state.known = True
        _state.in_flight[state] += 1
        if state == RUNNING:
            _begin(step)


def moved(before: str, after: str, step: int | None) -> None:
    """A request went from one state to the other."""
    with _lock:
        _state.in_flight[before] -= 1
        _state.in_flight[after] += 1
        if after == RUNNING:
            _begin(step)
        elif not _state.in_flight[RUNNING] and _state.requests == 1:
            _state.since, _state.requests = None, 0  # it was only on its way to the gate
            return
        ended = _end() if not _state.in_flight[RUNNING] else None
    _tell(ended)


def left(state: str, tokens: int) -> None:
    """A request is done, and gave so many tokens."""
    with _lock:
        _state.in_flight[state] -= 1
        _state.tokens += tokens
        ended = _end() if state == RUNNING and not _state.in_flight[RUNNING] else None
    _tell(ended)


def cut() -> None:
    """End the busy interval that is open, if it is long enough, and go on with the next."""
    with _lock:
        if _state.since is None or monotonic() - _state.since < LONGEST_INTERVAL:
            return
        ended = _end()
        _state.requests = _state.in_flight[RUNNING]
        _state.since, _state.started_at = monotonic(), time_ns()
    _tell(ended)


def _begin(step: int | None) -> None:
    _state.requests += 1
    if step is not None:
        _state.step = step
    if _state.since is None:
        _state.since, _state.started_at = monotonic(), time_ns()


def _end() -> Busy | None:
    if _state.since is None:
        return None
    ended = Busy(
        _state.replica,
        _state.started_at,
        monotonic() - _state.since,
        _state.requests,
        _state.tokens,
        _state.step,
        _state.weights,
    )
    _state.busy += _busy_since_looked()
    _state.since, _state.requests, _state.tokens = None, 0, 0
    return ended


def _tell(ended: Busy | None) -> None:
    # Not under the lock, which the event loop waits for.
    if ended is None or (current := runtime.started()) is None:
        return
    one = ended.replica
    attributes = {
        **one.labels,
        semconv.LANE: one.lane,
        semconv.STEP: ended.step,
        semconv.WEIGHTS_VERSION: ended.weights,
        semconv.ENGINE_REQUESTS: ended.requests,
        semconv.ENGINE_OUTPUT_TOKENS: ended.tokens,
    }
    span = current.tracer.start_span(
        semconv.SPAN_REPLICA_BUSY,
        context=Context(),
        start_time=ended.started_at,
        attributes={key: value for key, value in attributes.items() if value is not None},
    )
    span.end(ended.started_at + int(ended.seconds * 1e9))
    count(semconv.REPLICA_BUSY_TIME, ended.seconds, one.labels)


def _busy_since_looked() -> float:
    return 0.0 if _state.since is None else monotonic() - max(_state.since, _state.looked)


def metrics(time: int) -> "Iterable[Metric]":
    """Requests now, the idle share since the last time this was asked, and the version of the weights."""
    from verl_otel.delivery.points import gauge

    if not _state.known:
        return
    labels = _state.replica.labels
    with _lock:
        now = monotonic()
        elapsed, busy = now - _state.looked, _state.busy + _busy_since_looked()
        _state.looked, _state.busy = now, 0.0
        states = [({**labels, semconv.ENGINE_STATE: one}, _state.in_flight[one]) for one in (PARKED, RUNNING)]
    yield gauge(semconv.ENGINE_IN_FLIGHT, states, time)
    if elapsed > 0:
        yield gauge(semconv.REPLICA_IDLE, [(labels, max(0.0, 1 - busy / elapsed))], time)
    if _state.weights is not None:
        yield gauge(semconv.REPLICA_WEIGHTS, [(labels, _state.weights)], time)


def control(action: str, *, private: bool = False) -> Recording:
    """Start the span of something that is done to the replica: it sleeps, wakes up, drops its cache.

    `private`: as for a `Recording`.
    """
    here, one = scope.current(), _state.replica
    return Recording(
        semconv.SPAN_REPLICA + action,
        {**one.labels, semconv.LANE: one.lane, semconv.STEP: here.step, semconv.WEIGHTS_VERSION: _state.weights},
        scope=here,
        private=private,
    )


def reset() -> None:
    """Forget everything, in a forked child and between tests."""
    global _state, _lock
    _state, _lock = _State(), threading.Lock()


produce(metrics)
runtime.on_start(lambda started: started.pipeline.watch(cut, every=1.0))
os.register_at_fork(after_in_child=reset)
