"""Steps and phases of one trainer: a root for each step and for what happens outside steps, a span for each timer.

Where a trainer has a method for a step, its root lasts as long (`Step`). Else it opens with the first timer after the
last one closed, and closes at the end of the call that logs the step: so it holds what lies behind the `step` timer too
(validation, checkpoints, metrics). Initialisation, validation before training and warm-up have roots of their own. One
trainer a process; its threads and tasks may use this together.
"""

import os
import threading
from collections.abc import Callable
from typing import Final

from opentelemetry import context, trace
from opentelemetry.context import Context

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.telemetry import content, run, whoami
from verl_otel.telemetry.recording import Attributes, Recording, truncate_open
from verl_otel.telemetry.scope import Scope, current

LANE: Final = "trainer"

ReadNumber = Callable[[], int | None]
"""The step, or the epoch, that the trainer works on; None where it doesn't say."""


class _Trainer:
    def __init__(self, read_step: ReadNumber, read_epoch: ReadNumber, *, by_log: bool, lane: str) -> None:
        self.read_step = read_step
        self.read_epoch = read_epoch
        self.lane = lane
        self.by_log = by_log
        self.root: Recording | None = None
        self.step: int | None = None
        self.epoch: int | None = None
        self.main_timer_done = False


_lock = threading.RLock()
"""Held while a root starts, where a span hook of the user's may come back to us."""
_trainer: _Trainer | None = None


def trainer_started(
    read_step: ReadNumber, *, read_epoch: ReadNumber = lambda: None, by_log: bool = True, lane: str = LANE
) -> None:
    """From now on this process's timers are phases of a trainer's steps.

    `by_log`: a step's root opens with a timer and closes with the log; else `Step` says when.
    `lane`: row of the trainer in a state timeline.
    """
    global _trainer
    whoami.is_("trainer")
    content.not_handled()
    with _lock:
        before, _trainer = _trainer, _Trainer(read_step, read_epoch, by_log=by_log, lane=lane)
    if before is not None and before.root is not None:
        before.root.stop()


def has_trainer() -> bool:
    """Whether this process has a trainer."""
    return _trainer is not None


def trainer_finished(error: BaseException | None) -> None:
    """The trainer returned or raised: what is still open is ended and marked."""
    global _trainer
    with _lock:
        trainer, _trainer = _trainer, None
    if trainer is not None and trainer.root is not None and error is not None:
        trainer.root.set({semconv.TRUNCATED: True})
        trainer.root.fail(error)
    truncate_open()


class Step:
    """The root of a step from its begin to its end, current in between, for trainers that mark both."""

    def __init__(self, attributes: Attributes | None = None) -> None:
        """`attributes`: of the root, beside its step."""
        self._trainer = _trainer
        if (trainer := self._trainer) is None:
            return
        _start_step(trainer)
        if trainer.root is not None:
            trainer.root.set(attributes or {})

    def stop(self) -> None:
        """End it."""
        if (root := self._take()) is not None:
            root.stop()

    def fail(self, error: BaseException) -> None:
        """End it, failed with `error`."""
        if (root := self._take()) is not None:
            root.fail(error)

    def cut(self) -> None:
        """End it, marked: it turned out that there is nothing to do in it."""
        if (root := self._take()) is not None:
            root.truncate()
            root.stop()

    def _take(self) -> Recording | None:
        if (trainer := self._trainer) is None:
            return None
        with _lock:
            root, trainer.root = trainer.root, None
        return root


class Root:
    """A root of its own for work outside steps; inside an open step it records nothing."""

    def __init__(self, name: str, *, validation: bool = False, lane: str = LANE) -> None:
        """`validation`: what is dispatched inside is validation. `lane`: as for a trainer."""
        self._recording: Recording | None = None
        with _lock:
            if _trainer is not None and _trainer.root is not None:
                return
        # What a trainer dispatched before its first step belongs to step 0, as verl counts.
        step = _read(_trainer.read_step) if _trainer is not None else None
        self._recording = _start_root(name, Scope(step, None, validation), lane)

    def stop(self) -> None:
        """End it."""
        if self._recording is not None:
            self._recording.stop()

    def fail(self, error: BaseException) -> None:
        """End it, failed with `error`."""
        if self._recording is not None:
            self._recording.fail(error)


def phase(name: str, *, is_step: bool = False, validation: bool = False) -> Recording | None:
    """Open the span of a timer; None in a process without a trainer. `is_step`: it times the step itself."""
    trainer = _trainer
    if trainer is None:
        return None
    with _lock:
        if is_step and trainer.by_log and trainer.root is not None and trainer.main_timer_done:
            trainer.root.stop()  # a step that nobody logged
            trainer.root = None
        here = current()
        if trainer.root is None and trainer.by_log and here.root is None:
            _open_step(trainer)
        root, step, epoch = trainer.root, trainer.step, trainer.epoch
    if root is None:  # a timer of what lies outside steps
        scope, parent = here._replace(phase=name), None
    else:
        scope = Scope(step, name, validation, root.span.get_span_context().span_id, epoch)
        parent = _parent(root)
    labels = {semconv.PHASE: name}
    return Recording(
        semconv.SPAN_PHASE + name,
        {**labels, semconv.STEP: scope.step, semconv.LANE: trainer.lane},
        scope=scope,
        parent=parent,
        duration=(semconv.PHASE_DURATION, labels),
        shown_open=labels,
    )


def phase_done(*, is_step: bool) -> None:
    """A timer closed, with an error or without."""
    if is_step and (trainer := _trainer) is not None:
        trainer.main_timer_done = True


def logged(step: int | None) -> None:
    """The trainer logged `step`: close its root."""
    trainer = _trainer
    if trainer is None or not trainer.by_log:
        return
    with _lock:
        root, trainer.root = trainer.root, None
    if root is not None:
        root.set({semconv.STEP: step})
        root.stop()


def _open_step(trainer: _Trainer) -> None:
    trainer.main_timer_done = False
    _start_step(trainer)
    if trainer.root is not None:
        # Phases name it as their parent; the code between them runs in the user's own context.
        trainer.root.detach()


def _start_step(trainer: _Trainer) -> None:
    trainer.step, trainer.epoch = _read(trainer.read_step), _read(trainer.read_epoch)
    trainer.root = _start_root(semconv.SPAN_STEP, Scope(trainer.step, epoch=trainer.epoch), trainer.lane)
    plan = run.profiler_plan()
    if plan is not None and trainer.step in plan.steps:
        trainer.root.set(
            {
                semconv.PROFILER_TOOL: plan.tool,
                semconv.PROFILER_STEPS: plan.steps,
                semconv.PROFILER_RANKS: plan.ranks,
                semconv.PROFILER_PATH: plan.path or None,
            }
        )


def _read(number: ReadNumber) -> int | None:
    with guard("reading the step"):
        return number()
    return None


def _start_root(name: str, scope: Scope, lane: str) -> Recording:
    attributes: Attributes = {
        semconv.STEP: scope.step,
        semconv.EPOCH: scope.epoch,
        semconv.LANE: lane,
        semconv.VALIDATION: True if scope.validation else None,
    }
    around = trace.get_current_span().get_span_context()
    return Recording(name, attributes, scope=scope, root=True, links=[around])


def _parent(root: Recording) -> Context | None:
    """The current context if its span belongs to the step's trace, else the step's root on top of it."""
    here = trace.get_current_span().get_span_context()
    if here.is_valid and here.trace_id == root.span.get_span_context().trace_id:
        return None
    return trace.set_span_in_context(root.span, context.get_current())


def reset() -> None:
    """Forget everything, in a forked child and between tests."""
    global _trainer, _lock
    _trainer, _lock = None, threading.RLock()


os.register_at_fork(after_in_child=reset)
