"""The thread that sends: asks the core what is due, tries it, tells the core. Locks are never held over I/O."""

import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from opentelemetry import context

from verl_otel.delivery.core import FIRST_PAUSE, Batch, Core, Outcome, Reason, Refused, Signal, Statistics
from verl_otel.guard import failures, guard

if TYPE_CHECKING:
    from verl_otel.delivery.transports import Transport

Report = Callable[[str, Batch, Outcome], None]
"""Told the endpoint, the batch and its outcome, on the sender's thread."""


def suppress_instrumentation() -> None:
    """Mark this thread, so that instrumented HTTP and gRPC clients make no spans of our own requests."""
    marked = context.get_current()
    for key in ("suppress_instrumentation", "suppress_http_instrumentation"):
        marked = context.set_value(key, True, marked)
    context.attach(marked)


class Sender:
    """Holds the core's lock and its thread, which dies with the process."""

    def __init__(
        self, bound: int, connect: Mapping[Signal, Callable[[], "Transport"]], report: Report | None = None
    ) -> None:
        """`bound`: bytes queued at most. `connect`: makes a signal's transport, on the thread, when first needed."""
        self._core = Core(bound)
        self._connect = connect
        self._report = report
        self._transports: dict[Signal, Transport] = {}
        self._changed = threading.Condition()
        self._stopping = False

    def start(self) -> None:
        """Start the thread. Not left to the first batch: that may come at exit, when no thread can be started."""
        threading.Thread(target=self._run, name="verl-otel-send", daemon=True).start()

    def offer(self, batch: Batch) -> None:
        """Queue a batch; returns at once."""
        with self._changed:
            if self._stopping:  # what was being gathered when the end came
                self._core.count_drop(batch.signal, Reason.EXIT, batch.items)
                return
            self._core.offer(batch)
            self._changed.notify_all()

    def count_drop(self, signal: Signal, reason: Reason, items: int) -> None:
        """Count what was lost before it could be queued."""
        with self._changed:
            self._core.count_drop(signal, reason, items)

    def statistics(self) -> Statistics:
        """Counts so far."""
        with self._changed:
            return self._core.statistics()

    def flush(self, deadline: float) -> bool:
        """Try everything queued at once; True when nothing is left, False at `deadline` (monotonic seconds)."""
        with self._changed:
            self._core.hurry()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._core.queued_items, max(0.0, deadline - monotonic()))

    def stop(self) -> int:
        """Send no more; returns the items given up, which are counted too."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            return self._core.abandon()

    def _run(self) -> None:
        suppress_instrumentation()
        while self._safe_turn():
            pass

    def _safe_turn(self) -> bool:
        try:
            return self._turn()
        except Exception as error:  # noqa: BLE001 - anything that escaped here would end all delivery
            failures.add("sending", error)
            with self._changed:
                self._core.release()
                if not self._stopping:
                    self._changed.wait(FIRST_PAUSE)  # it may fail each time
                return not self._stopping

    def _turn(self) -> bool:
        """Try what is due, or wait for it; False if there is nothing left to wait for."""
        with self._changed:
            due = self._core.next(monotonic())
            if not isinstance(due, Batch):
                if not self._stopping:
                    self._changed.wait(due)
                return not self._stopping
        outcome = self._try(due)
        with self._changed:
            self._core.settle(due, outcome, monotonic())
            self._changed.notify_all()
        return True

    def _try(self, batch: Batch) -> Outcome:
        # Whatever goes wrong costs this batch alone: an exception here would end all delivery of the process.
        try:
            transport = self._transports.get(batch.signal)
            if transport is None:
                transport = self._transports[batch.signal] = self._connect[batch.signal]()
            outcome = transport.send(batch)
        except Exception as error:  # noqa: BLE001
            failures.add(f"sending {batch.signal.value}", error)
            return Refused(str(error))
        if self._report is not None:
            # What is said of a batch is no part of what became of it.
            with guard("reporting on delivery"):
                self._report(transport.endpoint, batch, outcome)
        return outcome
