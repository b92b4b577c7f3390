"""Sources: metrics that other people's code gives, each read on a thread of its own.

A driver that hangs, a page that never ends or a collector that raises costs its own reading, which is counted.
"""

import threading
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Final

from verl_otel.delivery.sender import suppress_instrumentation

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

PATIENCE: Final = 1.0
"""Seconds that a collection waits for its sources, all together."""
MOST_POINTS: Final = 20_000
"""Data points of one reading, about as many as a gRPC server takes at once."""

HANGS: Final = "hangs"
TOO_MANY: Final = "too_many"

Read = Callable[[int], "Iterable[Metric]"]
"""Given a time (ns since the epoch), that of the points it gives."""


class Source:
    """One source; `name` is its scope's, and says who missed a reading."""

    def __init__(self, name: str, read: Read) -> None:
        self.name = name
        self._read = read
        self._asked: SimpleQueue[int | None] = SimpleQueue()
        self._done = threading.Event()
        self._is_asked = self._hangs = False
        self._found: list[Metric] = []
        self._fault: str | None = None
        self._thread: threading.Thread | None = None

    def ask(self, time: int) -> None:
        """Have it read now; one that wasn't in time before is given until now, and what it read then is taken."""
        if self._is_asked:
            self._hangs = not self._done.is_set()
            return
        self._is_asked, self._hangs = True, False
        self._done.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"verl-otel-{self.name}", daemon=True)
            self._thread.start()
        self._asked.put(time)

    def take(self, deadline: float) -> "tuple[list[Metric], str | None]":
        """What was read, and why nothing was; waits until `deadline` (monotonic s), but not for one that hangs."""
        if not self._done.wait(0 if self._hangs else max(0.0, deadline - monotonic())):
            return [], HANGS if self._hangs else None
        found, fault = self._found, self._fault
        self._found, self._fault, self._is_asked = [], None, False
        return found, fault

    def stop(self) -> None:
        """Read no more."""
        self._asked.put(None)

    def _run(self) -> None:
        suppress_instrumentation()
        while (time := self._asked.get()) is not None:
            try:
                found = list(self._read(time))
                if sum(len(one.data.data_points) for one in found) > MOST_POINTS:
                    self._fault = TOO_MANY
                else:
                    self._found = found
            except BaseException as error:  # noqa: BLE001 - other people's code raises what it likes
                self._fault = type(error).__name__
            self._done.set()
