"""One place that keeps our own failures away from the user's code: caught, counted by place, logged once.

A guard stands round our lines only, never round a call of the user's: what verl or Ray raises must pass untouched.
"""

import contextlib
import logging
import threading
from collections import Counter
from types import TracebackType
from typing import Final

_logger = logging.getLogger("verl_otel")

OUR_THREADS: Final = "verl-otel-"
"""Beginning of their names."""


def say(message: str) -> None:
    """One line for people, recognisable as ours."""
    with contextlib.suppress(Exception):  # a handler or filter of the user's may raise
        _logger.warning("verl-otel: %s", message)


class _Failures:
    """How often each guarded place failed in this process; the pipeline reports it as `verl.telemetry.errors`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, place: str, error: BaseException) -> None:
        """Count one failure, and log the first of each place with its traceback."""
        with self._lock:
            self._counts[place] += 1
            first = self._counts[place] == 1
        if first and not getattr(error, "told_already", False):
            with contextlib.suppress(Exception):  # as in `say`
                _logger.warning(
                    "verl-otel: failed in %s and goes on without it; training is not affected. Further failures there "
                    "are only counted (metric verl.telemetry.errors).",
                    place,
                    exc_info=error,
                )

    def counts(self) -> dict[str, int]:
        """Failures so far, by place."""
        with self._lock:
            return dict(self._counts)

    def clear(self) -> None:
        """Start again at zero, in a forked child and between tests."""
        self._lock = threading.Lock()
        self._counts = Counter()


failures = _Failures()


class guard:  # noqa: N801 - reads as a keyword: `with guard("place"):`
    """`with guard("place"):` swallows any `Exception` of the block, counts and logs it.

    `KeyboardInterrupt`, `SystemExit` and the like pass: they are the user's.
    """

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if error is None:
            return False
        # In a thread of ours nothing is the user's, and what passed would end it.
        if not isinstance(error, Exception) and not threading.current_thread().name.startswith(OUR_THREADS):
            return False
        failures.add(self._place, error)
        return True
