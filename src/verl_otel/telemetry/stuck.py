"""Stuck work: a phase or worker call that is open far longer than it ever took gives one event, with all stacks.

A span leaves when it ends, so one that never does would be silent; this and `verl.phase.open.duration` speak for it.
"""

import sys
import threading
import traceback
from time import monotonic
from typing import Final

from opentelemetry import context, trace
from opentelemetry._logs import SeverityNumber

from verl_otel import runtime, semconv
from verl_otel.telemetry import events, recording

FACTOR: Final = 3.0
"""Times the longest so far; what has never ended in this process is given as many times the setting."""
MAX_STACKS: Final = 64 * 1024
"""Longest text of stacks, in characters."""

IDENTIFYING: Final = (semconv.SAMPLE_UID, semconv.ROLLOUT_SESSION, semconv.DATA_SOURCE)
"""What says which one it is, where a metric can't, since it would have a series for each."""

_told: set[int] = set()


def check() -> None:
    """Tell of what became stuck since the last call; called at each interval, by the gatherer's thread."""
    # Never `current()`: the gatherer may outlive its runtime by a round, and must not start another.
    started = runtime.started()
    if started is None or not (least := started.settings.stuck_after):
        return
    now, found = monotonic(), recording.innermost_open()
    _told.intersection_update(recording.open_numbers())
    for number, one in found.items():
        expected = recording.longest(one)
        patience = FACTOR * least if expected is None else max(least, FACTOR * expected)
        if now - one.since > patience and number not in _told:
            _told.add(number)
            _tell(one, now - one.since, expected)


def _tell(one: recording.Open, seconds: float, expected: float | None) -> None:
    token = context.attach(trace.set_span_in_context(one.recording.span))
    try:
        attributes = {
            **{name: one.recording.attributes.get(name) for name in IDENTIFYING},
            **(one.shown or {}),
            semconv.STEP: one.recording.step,
            semconv.STUCK_SECONDS: seconds,
            semconv.STUCK_LONGEST: expected,
            semconv.STUCK_STACKS: stacks(),
        }
        events.emit(semconv.EVENT_STUCK, attributes, SeverityNumber.WARN)
    finally:
        context.detach(token)


def stacks() -> str:
    """Where every thread of this process is now, the main thread first; no values of variables."""
    threads = {one.ident: one.name for one in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sorted(sys._current_frames().items(), key=lambda one: one[0] != main)  # noqa: SLF001 - CPython's own way
    texts = (
        f"Thread {threads.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}" for ident, frame in frames
    )
    return "\n".join(texts)[:MAX_STACKS]
