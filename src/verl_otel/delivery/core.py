"""The queue as a decision: what to send next, when to try again, what to give up. No clock, thread, lock or I/O.

Times are monotonic seconds and are passed in. The caller serialises the calls (see `sender`).
"""

import itertools
from collections import Counter, OrderedDict
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
    batches: "OrderedDict[int, Batch]" = field(default_factory=OrderedDict)
    not_before: float = 0.0
    failures: int = 0
    sending: int | None = None
    """Number of the batch that is being sent."""


class Core:
    """A queue bounded by bytes, one lane a signal, first in first out in each.

    Every operation takes the same time however long the queue is: hours of an outage are tens of thousands of batches.
    """

    def __init__(self, bound: int) -> None:
        """`bound`: most payload bytes held at a time."""
        self._bound = bound
        self._bytes = self._items = 0
        self._numbers = itertools.count()
        self._lanes = {signal: _Lane() for signal in Signal}
        self._by_worth: dict[Worth, OrderedDict[int, Signal]] = {worth: OrderedDict() for worth in Worth}
        self._exported: Counter[Signal] = Counter()
        self._retries: Counter[Signal] = Counter()
        self._dropped: Counter[tuple[Signal, Reason]] = Counter()

    def offer(self, batch: Batch) -> None:
        """Queue a batch. Beyond the bound the oldest of the least worth is dropped, which may be this one."""
        number = next(self._numbers)
        self._lanes[batch.signal].batches[number] = batch
        self._by_worth[batch.worth][number] = batch.signal
        self._bytes += len(batch.payload)
        self._items += batch.items
        while self._bytes > self._bound and self._evict():
            pass

    def next(self, now: float) -> Batch | float | None:
        """The batch to send now, or the seconds until one may be sent, or None where nothing waits.

        The batch stays queued until `settle` is told its outcome.
        """
        waiting = [lane for lane in self._lanes.values() if lane.batches and lane.sending is None]
        if not waiting:
            return None
        lane = min(waiting, key=lambda one: one.not_before)
        if lane.not_before > now:
            return lane.not_before - now
        lane.sending = next(iter(lane.batches))
        # Another lane with an equal claim comes first next time.
        lane.not_before = now
        return lane.batches[lane.sending]

    def settle(self, batch: Batch, outcome: Outcome, now: float) -> None:
        """Take the outcome of a batch that `next` gave."""
        lane = self._lanes[batch.signal]
        number, lane.sending = lane.sending, None
        if isinstance(outcome, Unreachable):
            self._retries[batch.signal] += 1
            pause = min(FIRST_PAUSE * 2**lane.failures, LONGEST_PAUSE)
            if outcome.retry_after is not None:
                pause = max(pause, min(outcome.retry_after, LONGEST_RETRY_AFTER))
            lane.failures = min(lane.failures + 1, 10)
            lane.not_before = now + pause
            return
        lane.failures = 0
        if number is None or number not in lane.batches:
            return  # it was abandoned, and counted, meanwhile
        self._remove(batch, number)
        if isinstance(outcome, Refused):
            self._dropped[batch.signal, Reason.REFUSED] += batch.items
        else:
            # A backend may say anything; no more can be rejected than there was.
            rejected = min(max(outcome.rejected, 0), batch.items)
            self._exported[batch.signal] += batch.items - rejected
            if rejected:
                self._dropped[batch.signal, Reason.PARTIAL] += rejected

    def release(self) -> None:
        """Take back what `next` gave and `settle` could not take: it waits again."""
        for lane in self._lanes.values():
            lane.sending = None

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
            if items := sum(batch.items for batch in lane.batches.values()):
                self._dropped[signal, Reason.EXIT] += items
            lost += items
            lane.batches.clear()
        for numbers in self._by_worth.values():
            numbers.clear()
        self._bytes = self._items = 0
        return lost

    @property
    def queued_items(self) -> int:
        """Items that wait, or are being sent."""
        return self._items

    def statistics(self) -> Statistics:
        """A copy of the counts."""
        return Statistics(
            exported=dict(self._exported),
            dropped=dict(self._dropped),
            retries=dict(self._retries),
            queued_bytes=self._bytes,
            queued_items=self._items,
        )

    def _evict(self) -> bool:
        sending = {lane.sending for lane in self._lanes.values()}  # can't be taken back; `settle` will remove it
        for numbers in self._by_worth.values():
            for number, signal in numbers.items():
                if number not in sending:
                    batch = self._lanes[signal].batches[number]
                    self._remove(batch, number)
                    self._dropped[signal, Reason.QUEUE_FULL] += batch.items
                    return True
        return False

    def _remove(self, batch: Batch, number: int) -> None:
        del self._lanes[batch.signal].batches[number]
        del self._by_worth[batch.worth][number]
        self._bytes -= len(batch.payload)
        self._items -= batch.items
