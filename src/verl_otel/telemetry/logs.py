"""Log messages of the user's program, where the user asked for them: with trace, role and rank, bounded like spans."""

import logging
import threading
import traceback
from time import time_ns
from typing import Any, Final

from opentelemetry._logs import SeverityNumber
from opentelemetry.semconv.attributes import exception_attributes

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.telemetry import content, events, scope

MAX_TEXT: Final = 16 * 1024
"""Longest message or stack trace, in characters."""

WITHHELD: Final = f"(withheld: this process handles prompts and answers; see {content.VARIABLE})"

_here = threading.local()


def message(record: logging.LogRecord) -> None:
    """Export a log record of WARNING or above. Formatting it may log again; that is not followed."""
    if record.levelno < logging.WARNING or getattr(_here, "busy", False):
        return
    _here.busy = True
    try:
        with guard("exporting a log message"):
            attributes: dict[str, Any] = {
                semconv.LOGGER: record.name,
                semconv.CODE_FILE: record.pathname,
                semconv.CODE_LINE: record.lineno,
                semconv.CODE_FUNCTION: record.funcName,
            }
            if record.exc_info and record.exc_info[1] is not None:
                attributes |= _exception(record.exc_info[1])
            text = WITHHELD if content.here() else record.getMessage()[:MAX_TEXT]
            time = int(record.created * 1e9)
            events.message(text, {**attributes, **_place()}, severity(record.levelno), time)
    finally:
        _here.busy = False


def uncaught(error: BaseException) -> None:
    """Export an exception that ended a thread, or the program."""
    with guard("exporting an exception"):
        attributes = {**_exception(error), **_place()}
        events.message(f"Uncaught {type(error).__name__}", attributes, SeverityNumber.FATAL, time_ns())


def severity(level: int) -> SeverityNumber:
    """Python's levels as OpenTelemetry's: WARNING is WARN, ERROR ERROR, CRITICAL and above FATAL."""
    if level >= logging.CRITICAL:
        return SeverityNumber.FATAL
    return SeverityNumber.ERROR if level >= logging.ERROR else SeverityNumber.WARN


def _exception(error: BaseException) -> dict[str, Any]:
    if content.here() or not content.shareable(error):
        return dict(content.without_text(error))
    return {
        exception_attributes.EXCEPTION_TYPE: type(error).__name__,
        exception_attributes.EXCEPTION_MESSAGE: str(error)[:MAX_TEXT],
        exception_attributes.EXCEPTION_STACKTRACE: "".join(traceback.format_exception(error))[-MAX_TEXT:],
    }


def _place() -> dict[str, Any]:
    here = scope.current()
    return {
        semconv.ROLE: here.role,
        semconv.RANK: here.rank,
        semconv.PHASE: here.phase,
        semconv.STEP: here.step,
    }
