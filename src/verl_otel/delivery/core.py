"""The queue as a decision: what to send next, when to try again, what to give up. No clock, thread, lock or I/O.

Times are monotonic seconds and are passed in. The caller serialises the calls (see `sender`).
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final

FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 5.0
LONGEST_RETRY_AFTER: Final = 30.0
"""Seconds. Pauses between tries double from the first to the longest; Retry-After is honoured up to its bound."""


class Signal(str, Enum):
    """An OTLP signal; each is sent in order, and one that is refused or slow doesn't hold up the others' turn."""

    TRACES = "traces"
    METRICS = "metrics"
    LOGS = "logs"


class Worth(IntEnum):
    """What goes first when the bound is reached: the least worth."""

    INTERVAL = 0  # comes again
    SPAN = 1
    SNAPSHOT = 2  # a step's scalars, and events


class Reason(str, Enum):
    """Why an item will never arrive."""

    QUEUE_FULL = "queue_full"
    REFUSED = "refused"
    PARTIAL = "partial_success"
    EXIT = "exit"
    ENCODING = "encoding"
    OVERLOAD = "overload"


@dataclass(frozen=True)
class Batch:
    """One encoded OTLP request: `items` spans, data points or log records in `payload`."""

    signal: Signal
    payload: bytes
    items: int
    worth: Worth


@dataclass(frozen=True)
class Accepted:
    """The backend took the batch, but for `rejected` items of it (OTLP's partial success)."""

    rejected: int = 0


@dataclass(frozen=True)
class Refused:
    """The backend will never take the batch; `detail` says why, for people."""

    detail: str = ""


@dataclass(frozen=True)
class Unreachable:
    """Try again, not before `retry_after` seconds if the server named them; `detail` says why, for people."""

    detail: str = ""
    retry_after: float | None = None


Outcome = Accepted | Refused | Unreachable


@dataclass(frozen=True)
class Statistics:
    """What happened so far, by signal (and reason), and what waits."""

    exported: dict[Signal, int]
    dropped: dict[tuple[Signal, Reason], int]
    retries: dict[Signal, int]
    queued_bytes: int
    queued_items: int


@dataclass
class _Lane:
    batches: deque[Batch] = field(default_factory=deque)
    not_before: float = 0.0
    failures: int = 0
    sending: bool = False


class Core:
    """A queue bounded by bytes, one lane a signal, first in first out in each."""

    def __init__(self, bound: int) -> None:
        """`bound`: most payload bytes held at a time."""
        self._bound = bound
        self._bytes = 0
        self._lanes = {signal: _Lane() for signal in Signal}
        self._exported: Counter[Signal] = Counter()
        self._retries: Counter[Signal] = Counter()
        self._dropped: Counter[tuple[Signal, Reason]] = Counter()

    def offer(self, batch: Batch) -> None:
        """Queue a batch. Beyond the bound the oldest of the least worth is dropped, which may be this one."""
        self._lanes[batch.signal].batches.append(batch)
        self._bytes += len(batch.payload)
        while self._bytes > self._bound and self._evict():
            pass

    def next(self, now: float) -> Batch | float | None:
        """The batch to send now, or the seconds until one may be sent, or None where nothing waits.

        The batch stays queued until `settle` is told its outcome.
        """
        waiting = [lane for lane in self._lanes.values() if lane.batches and not lane.sending]
        if not waiting:
            return None
        lane = min(waiting, key=lambda one: one.not_before)
        if lane.not_before > now:
            return lane.not_before - now
        lane.sending = True
        # Another lane with an equal claim comes first next time.
        lane.not_before = now
        return lane.batches[0]

    def settle(self, batch: Batch, outcome: Outcome, now: float) -> None:
        """Take the outcome of a batch that `next` gave."""
        lane = self._lanes[batch.signal]
        lane.sending = False
        if isinstance(outcome, Unreachable):
            self._retries[batch.signal] += 1
            pause = min(FIRST_PAUSE * 2**lane.failures, LONGEST_PAUSE)
            if outcome.retry_after is not None:
                pause = max(pause, min(outcome.retry_after, LONGEST_RETRY_AFTER))
            lane.failures = min(lane.failures + 1, 10)
            lane.not_before = now + pause
            return
        lane.failures = 0
        if lane.batches and lane.batches[0] is batch:  # else it was abandoned, and counted, meanwhile
            lane.batches.popleft()
            self._bytes -= len(batch.payload)
        else:
            return
        if isinstance(outcome, Refused):
            self._dropped[batch.signal, Reason.REFUSED] += batch.items
        else:
            self._exported[batch.signal] += batch.items - outcome.rejected
            if outcome.rejected:
                self._dropped[batch.signal, Reason.PARTIAL] += outcome.rejected

    def hurry(self) -> None:
        """Try again at once what waits out a pause; for a flush."""
        for lane in self._lanes.values():
            lane.not_before = 0.0

    def count_drop(self, signal: Signal, reason: Reason, items: int) -> None:
        """Count items that were lost before they could be offered."""
        self._dropped[signal, reason] += items

    def abandon(self) -> int:
        """Give up what is queued, at exit; returns and counts the items."""
        lost = 0
        for signal, lane in self._lanes.items():
            items = sum(batch.items for batch in lane.batches)
            lost += items
            if items:
                self._dropped[signal, Reason.EXIT] += items
            lane.batches.clear()
        self._bytes = 0
        return lost

    def statistics(self) -> Statistics:
        """A copy of the counts."""
        return Statistics(
            exported=dict(self._exported),
            dropped=dict(self._dropped),
            retries=dict(self._retries),
            queued_bytes=self._bytes,
            queued_items=sum(batch.items for lane in self._lanes.values() for batch in lane.batches),
        )

    def _evict(self) -> bool:
        # What is being sent can't be taken back; `settle` will pop it.
        candidates = [
            (batch.worth, index, lane)
            for lane in self._lanes.values()
            for index, batch in enumerate(lane.batches)
            if not (lane.sending and index == 0)
        ]
        if not candidates:
            return False
        _, index, lane = min(candidates, key=lambda one: (one[0], one[1]))
        batch = lane.batches[index]
        del lane.batches[index]
        self._bytes -= len(batch.payload)
        self._dropped[batch.signal, Reason.QUEUE_FULL] += batch.items
        return True
