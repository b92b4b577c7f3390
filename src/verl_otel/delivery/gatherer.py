"""The thread that gathers: four times a second it encodes what was handed over, at the interval it collects metrics.

It is not the sender's: while a request hangs, spans must still become bytes, and while a producer hangs, bytes must
still leave.
"""

import threading
from collections.abc import Callable, Sequence
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Final

from verl_otel.delivery.core import Batch, Reason, Signal, Worth
from verl_otel.delivery.handoff import Handoff, Handoffs
from verl_otel.delivery.metrics import GatheringReader, count_points
from verl_otel.delivery.sender import Sender, suppress_instrumentation
from verl_otel.guard import failures, guard

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

    from verl_otel.delivery.encoding import Encoder

TICK: Final = 0.25
MOST_ITEMS: Final = 512
"""Spans or log records in one request, as the SDK's batch processor."""
MOST_BYTES: Final = 3 << 20
"""Of one request, where it can be split; gRPC servers refuse messages over 4 MiB unless told otherwise."""


class _Watch:
    """Something to be called again and again; `every`: seconds, None for each interval."""

    def __init__(self, look: Callable[[], None], every: float | None) -> None:
        self._look, self._every = look, every
        self._due = monotonic()

    def turn(self, *, at_interval: bool) -> None:
        if at_interval if self._every is None else monotonic() >= self._due:
            self._due = monotonic() + (self._every or 0.0)
            self._look()


class Gatherer:
    """Encodes for the sender; starts its thread with `start` and stops it with `stop`."""

    def __init__(
        self,
        sender: Sender,
        encoders: dict[Signal, "Callable[[], Encoder]"],
        handoffs: Handoffs,
        reader: GatheringReader | None,
        interval: float,
    ) -> None:
        """`encoders`: the signals that are delivered, each with what makes its encoder on the thread. `interval`: s."""
        self._sender = sender
        self._make = encoders
        self._made: dict[Signal, Encoder] = {}
        self._handoffs, self._reader = handoffs, reader
        self._interval = interval
        self._watches: list[_Watch] = []
        self._wake = threading.Event()
        self._round = threading.Condition()
        self._asked = self._answered = 0
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="verl-otel-gather", daemon=True)
        self._thread.start()

    def watch(self, look: Callable[[], None], every: float | None = None) -> None:
        """Call `look` every so many seconds, default at each interval, whether metrics are collected or not."""
        self._watches.append(_Watch(look, every))

    def gather(self, deadline: float) -> bool:
        """Have everything gathered now, metrics too; False if that isn't done by `deadline` (monotonic seconds)."""
        with self._round:
            self._asked += 1
            mine = self._asked
            self._wake.set()
            return self._round.wait_for(lambda: self._answered >= mine, max(0.0, deadline - monotonic()))

    def stop(self) -> None:
        """Gather no more; what is still with us is counted as lost."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(TICK)  # unless a producer hangs

    def _run(self) -> None:
        suppress_instrumentation()
        due = monotonic() + self._interval
        while not self._stopping:
            self._wake.wait(TICK)
            self._wake.clear()
            with self._round:
                asked = self._asked
            try:
                at_interval = monotonic() >= due or asked > self._answered
                for watch in self._watches:
                    with guard("watching"):
                        watch.turn(at_interval=at_interval)
                if at_interval:
                    due = monotonic() + self._interval
                    self._encode_interval()
                self._encode_handed_over()
            except BaseException as error:  # noqa: BLE001 - anything that escaped here would end all gathering
                failures.add("gathering", error)
            with self._round:
                self._answered = asked
                self._round.notify_all()
        self._count_left()

    def _count_left(self) -> None:
        left = {
            Signal.TRACES: self._handoffs.spans.discard(),
            Signal.LOGS: self._handoffs.events.discard() + self._handoffs.messages.discard(),
            Signal.METRICS: self._reader.discard() if self._reader is not None else 0,
        }
        for signal, items in left.items():
            if items and signal in self._make:
                self._sender.count_drop(signal, Reason.EXIT, items)

    def _encode_handed_over(self) -> None:
        self._drain(Signal.TRACES, self._handoffs.spans, Worth.SPAN)
        self._drain(Signal.LOGS, self._handoffs.events, Worth.SNAPSHOT)
        self._drain(Signal.LOGS, self._handoffs.messages, Worth.INTERVAL)
        if self._reader is not None:
            self._reader.record_measured()
            for snapshot in self._reader.snapshots():
                if snapshot is None:
                    self._sender.count_drop(Signal.METRICS, Reason.ENCODING, 1)
                else:
                    self._offer_metrics(snapshot, Worth.SNAPSHOT)
            if lost := self._reader.take_overflow():
                self._sender.count_drop(Signal.METRICS, Reason.OVERLOAD, lost)

    def _encode_interval(self) -> None:
        if self._reader is not None:
            # The time first: what is logged from here on is newer than what is repeated, and leaves after it.
            now = time_ns()
            self._encode_handed_over()
            self._offer_metrics(self._reader.gather(now), Worth.INTERVAL)
            for read in self._reader.sourced():
                self._offer_metrics(read, Worth.INTERVAL)

    def _drain(self, signal: Signal, handoff: Handoff, worth: Worth) -> None:
        if signal in self._make:
            while objects := handoff.take(MOST_ITEMS):
                self._offer(signal, objects, worth)
        if lost := handoff.take_overflow():
            self._sender.count_drop(signal, Reason.OVERLOAD, lost)

    def _offer(self, signal: Signal, objects: Sequence[Any], worth: Worth) -> None:
        try:
            payload = getattr(self._encoder(signal), signal.value)(objects)
        except Exception as error:  # noqa: BLE001 - encoders raise whatever a strange value makes them raise
            if len(objects) == 1:
                failures.add(f"encoding {signal.value}", error)
                self._sender.count_drop(signal, Reason.ENCODING, 1)
                return
            payload = b""
        # One bad object must not cost its neighbours, nor a large one take them over a server's limit.
        if len(objects) > 1 and (not payload or len(payload) > MOST_BYTES):
            half = len(objects) // 2
            self._offer(signal, objects[:half], worth)
            self._offer(signal, objects[half:], worth)
        else:
            self._sender.offer(Batch(signal, payload, len(objects), worth))

    def _offer_metrics(self, data: "MetricsData", worth: Worth) -> None:
        if not (points := count_points(data)):
            return
        try:
            payload = self._encoder(Signal.METRICS).metrics(data)
        except Exception as error:  # noqa: BLE001 - as above
            failures.add("encoding metrics", error)
            self._sender.count_drop(Signal.METRICS, Reason.ENCODING, points)
            return
        self._sender.offer(Batch(Signal.METRICS, payload, points, worth))

    def _encoder(self, signal: Signal) -> "Encoder":
        if signal not in self._made:
            self._made[signal] = self._make[signal]()
        return self._made[signal]
