"""Python's logging, if VERL_OTEL_LOGS asks for it: WARNING and above of every logger, and uncaught exceptions.

No handler is added: Hydra, Ray and vLLM configure logging anew, and would remove it or not pass records on to it.
"""

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from verl_otel.guard import OUR_THREADS, guard
from verl_otel.instrumentors.base import VerlInstrumentor
from verl_otel.patching import patches
from verl_otel.settings import peek

_NAME: Final = "verl_logs"
_OURS: Final = ("verl_otel", "opentelemetry")
"""Loggers whose messages about telemetry must not become telemetry."""


def wrap_call_handlers(original: Callable[..., Any]) -> Callable[..., Any]:
    """Export a record that its logger lets through, after the user's own handlers had it."""

    @functools.wraps(original)
    def call_handlers(self: Any, record: Any) -> Any:
        result = original(self, record)
        if patches(_NAME).active:
            with guard("reading a log record"):
                own_thread = threading.current_thread().name.startswith(OUR_THREADS)
                # `logging.makeLogRecord` makes records without a name.
                if not own_thread and str(record.name).split(".")[0] not in _OURS:
                    from verl_otel.telemetry import logs

                    logs.message(record)
        return result

    return call_handlers


def wrap_excepthook(original: Callable[..., Any]) -> Callable[..., Any]:
    """Export what ends the program."""

    @functools.wraps(original)
    def excepthook(kind: Any, error: Any, trace: Any) -> Any:
        _export(error)
        return original(kind, error, trace)

    return excepthook


def wrap_thread_excepthook(original: Callable[..., Any]) -> Callable[..., Any]:
    """Export what ends a thread."""

    @functools.wraps(original)
    def excepthook(args: Any, /) -> Any:
        _export(args.exc_value)
        return original(args)

    return excepthook


def _export(error: BaseException | None) -> None:
    if patches(_NAME).active and error is not None and not isinstance(error, SystemExit | KeyboardInterrupt):
        with guard("reading an exception"):
            from verl_otel.telemetry import logs

            logs.uncaught(error)


class LogsInstrumentor(VerlInstrumentor):
    """Log messages and uncaught exceptions."""

    name = _NAME

    def _patch_more(self, *, by_program: bool) -> None:
        if peek("logs"):
            # Only once verl is there: a program without it is left alone.
            self.patches.when_imported("verl", lambda _: self._patch())

    def _patch(self) -> None:
        import logging

        self.patches.wrap(logging.Logger, "callHandlers", wrap_call_handlers)
        self.patches.wrap(sys, "excepthook", wrap_excepthook)
        self.patches.wrap(threading, "excepthook", wrap_thread_excepthook)
