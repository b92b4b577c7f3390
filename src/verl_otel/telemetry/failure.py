"""What went wrong first: the earliest error of a phase or worker call in this process, after which nothing succeeded.

When a run fails, later errors are mostly the noise of its teardown: actors that die, calls that are cancelled, a queue
that is gone. Each process keeps its earliest one, and the driver asks for them before it tells how the run ended.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import time_ns
from typing import Any, Final

from opentelemetry._logs import SeverityNumber

from verl_otel import semconv
from verl_otel.telemetry import content, events

MAX_MESSAGE: Final = 4000
MOST_CAUSES: Final = 16

_CANCELLED: Final = ("CancelledError", "TaskCancelledError", "GeneratorExit")
"""What work ends in when something else went wrong."""


@dataclass(frozen=True)
class Failure:
    """One error; no exception is kept, since that would keep everything its frames hold.

    `time`: ns since the epoch. `where`: attributes of the phase or worker call that it ended.
    """

    kind: str
    message: str
    interrupted: bool = False
    time: int = field(default_factory=time_ns)
    where: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, error: BaseException, where: Mapping[str, Any] | None = None, *, private: bool = False) -> "Failure":
        """What is worth telling of an exception: of one that came from another process, what was raised there.

        `private`: its text may hold what a model or a tool wrote.
        """
        shared = _shareable(error, private)
        # Ray keeps in `cause` what a remote call raised, one level for each process it came through.
        for _ in range(MOST_CAUSES):
            if not isinstance(cause := getattr(error, "cause", None), BaseException):
                break
            error = cause
        interrupted = isinstance(error, KeyboardInterrupt | SystemExit)
        return cls(type(error).__name__, _text(error) if shared else "", interrupted, time_ns(), dict(where or {}))


def _shareable(error: BaseException, private: bool) -> bool:
    try:
        return content.shareable(error, private=private)
    except Exception:  # noqa: BLE001 - an exception whose text can't be made has none to share
        return False


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MAX_MESSAGE]
    except Exception:  # noqa: BLE001 - an exception whose text can't be made is one all the same
        return ""


_LOW_ON_MEMORY: Final = ("running low on memory", "memory pressure")
"""What Ray's error says of an actor that its memory monitor killed."""

_first: Failure | None = None
_killed: int | None = None


def note(error: BaseException, where: Mapping[str, Any], *, private: bool = False) -> None:
    """A phase or worker call of this process ended in `error`; `private`: as for `Failure.of`."""
    if type(error).__name__ not in _CANCELLED:
        merge([Failure.of(error, where, private=private)])
        _note_killed(error, where)


def _note_killed(error: BaseException, where: Mapping[str, Any]) -> None:
    """Tell, once for each error, that Ray killed a process since the node's memory was nearly full."""
    global _killed
    if _killed != id(error) and _is_killed_for_memory(error):
        _killed = id(error)
        named = {name: value for name, value in where.items() if value is not None}
        events.emit(semconv.EVENT_OOM_KILL, {**named, semconv.OOM_KILLER: "ray"}, SeverityNumber.ERROR)


def _is_killed_for_memory(error: BaseException) -> bool:
    """Ray raises an OutOfMemoryError of its own, or says so where an actor died of it."""
    kind = type(error)
    if not kind.__module__.startswith("ray."):
        return False
    return kind.__name__ == "OutOfMemoryError" or any(one in _text(error) for one in _LOW_ON_MEMORY)


def merge(found: Iterable[Failure | None]) -> None:
    """Keep the earliest of these and the one known."""
    global _first
    known = [one for one in (_first, *found) if one is not None]
    _first = min(known, key=lambda one: one.time, default=None)


def succeeded() -> None:
    """Work went on after an error: it wasn't the end."""
    global _first
    _first = None


def first() -> Failure | None:
    """The earliest error after which nothing succeeded, or None."""
    return _first


os.register_at_fork(after_in_child=succeeded)
