"""Span and trace ids from the system's generator, drawn a page at a time.

The SDK's own come from Python's `random`, which verl seeds; a draw from the system for each id would be a system call.
"""

import os
import struct
from typing import Final

from opentelemetry.sdk.trace.id_generator import IdGenerator

_PAGE: Final = struct.Struct("512Q")

_pool: list[int] = []
os.register_at_fork(after_in_child=_pool.clear)


def _draw() -> int:
    """64 random bits that aren't all zero, which W3C's trace context forbids."""
    try:
        found = _pool.pop()  # one thread gets it, without a lock
    except IndexError:
        _pool.extend(_PAGE.unpack(os.urandom(_PAGE.size)))
        found = 0
    return found or _draw()


class SystemIdGenerator(IdGenerator):
    """Ids that no seed repeats, nor a fork."""

    def generate_span_id(self) -> int:
        """64 bits."""
        return _draw()

    def generate_trace_id(self) -> int:
        """128 bits."""
        return _draw() << 64 | _draw()
