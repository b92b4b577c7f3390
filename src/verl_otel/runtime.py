"""The one runtime of this process: made at the first use, again after a fork, ended at exit.

Importing this imports no SDK: `instrument()` must be cheap in programs that never import verl, and in idle workers.
"""

import atexit
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from verl_otel.guard import failures
from verl_otel.settings import Settings

if TYPE_CHECKING:
    from verl_otel.sdk import Runtime


class NotStartedError(RuntimeError):
    """The SDK couldn't be set up in this process; what failed was said once, so this is only counted."""

    told_already = True


_lock = threading.Lock()
_current: "Runtime | None" = None
_failed = False
_on_start: "list[Callable[[Runtime], None]]" = []


def on_start(prepare: "Callable[[Runtime], None]") -> None:
    """Have `prepare` called with every runtime that starts, and with the one there is, to add its producers."""
    _on_start.append(prepare)
    if (runtime := _current) is not None:
        prepare(runtime)


def current() -> "Runtime":
    """The runtime of this process, made now if there is none.

    Raises `NotStartedError` if that failed before: a broken setting must not cost a try at every span.
    """
    global _current, _failed
    if (runtime := _current) is not None:
        return runtime
    with _lock:
        if _failed:
            raise NotStartedError
        if _current is None:
            _failed = True
            from verl_otel.sdk import Runtime

            runtime = Runtime(Settings.read())
            for prepare in _on_start:
                prepare(runtime)
            runtime.start()
            _current, _failed = runtime, False
        return _current


def started() -> "Runtime | None":
    """The runtime, if there is one."""
    return _current


def flush(seconds: float | None = None) -> bool:
    """Flush what there is; True if nothing is left, or nothing ever started."""
    return True if _current is None else _current.flush(seconds)


def stop(*, flush: bool = True) -> None:
    """End delivery; a later `current()` starts anew."""
    global _current, _failed
    # It stays the current one while it flushes: what the gatherer's thread asks of it must not start another.
    if (runtime := _current) is not None:
        runtime.stop(flush=flush)
    with _lock:
        if _current is runtime:
            _current, _failed = None, False


def _forget_in_child() -> None:
    # Threads don't survive a fork, locks may be held for ever, and what waits in the queue is the parent's to send.
    global _current, _failed, _lock
    _current, _failed, _lock = None, False, threading.Lock()
    failures.clear()


os.register_at_fork(after_in_child=_forget_in_child)
atexit.register(lambda: stop())
