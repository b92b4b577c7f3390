"""Imports on threads of ours, which a fork must not catch half-way.

A child keeps the lock of a module that a thread was importing in its parent, and would wait for it for ever. So a fork
waits until such an import is over; but not for longer than some seconds: who forks may hold what that import waits for.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Final

PATIENCE: Final = 5.0

_lock = threading.RLock()
_held = False


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """While a module may be imported for the first time on a thread of ours."""
    with _lock:
        yield


def _before_fork() -> None:
    global _held
    _held = _lock.acquire(timeout=PATIENCE)


def _after_fork() -> None:
    if _held:
        _lock.release()


def _after_fork_in_child() -> None:
    # Its owner is a thread that the child doesn't have.
    global _lock
    _lock = threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child)
