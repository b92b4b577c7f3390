"""Where the training threads leave what is to be sent: an append, no lock, no wake-up, bounded by a count.

A finished span or a log record is an object of some kilobytes; the gatherer's thread turns it into bytes four times a
second. A lock here could deadlock: garbage collection may end a span while this very thread holds it.
"""

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

MOST_OBJECTS: Final = 16_384
"""About 50 MiB of span objects; reached only where more than 65,000 a second end, or the gatherer is starved."""

MOST_MESSAGES: Final = 1024
"""Log messages, of up to 16 KiB each; more than 4,000 a second tell nobody anything."""


def give_way() -> None:
    """Let the training's threads have the interpreter, for which they'd wait up to `sys.getswitchinterval` (5 ms)."""
    time.sleep(0)


class Handoff:
    """A bounded bag of objects: any thread puts, one takes."""

    def __init__(self, most: int = MOST_OBJECTS) -> None:
        self._objects: deque[Any] = deque()
        self._most = most
        self.overflow = 0

    def put(self, one: Any) -> None:
        """Leave an object; beyond the bound it is dropped and counted."""
        if len(self._objects) >= self._most:
            self.overflow += 1
        else:
            self._objects.append(one)

    def take(self, most: int) -> list[Any]:
        """Up to `most` objects, oldest first."""
        # One thread takes, so what is counted here is still there.
        return [self._objects.popleft() for _ in range(min(most, len(self._objects)))]

    def discard(self) -> int:
        """Drop everything; returns how much that is, with what was dropped before and not yet told."""
        return len(self.take(len(self._objects))) + self.take_overflow()

    def take_overflow(self) -> int:
        """How many were dropped since the last call."""
        overflow, self.overflow = self.overflow, 0
        return overflow


@dataclass(frozen=True)
class Handoffs:
    """One for each kind of object; a flood of one kind doesn't cost another."""

    spans: Handoff = field(default_factory=Handoff)
    events: Handoff = field(default_factory=Handoff)
    messages: Handoff = field(default_factory=lambda: Handoff(MOST_MESSAGES))
