"""One span being recorded: made current, known as open while it lasts, ended once, with its duration in a histogram."""

import itertools
import os
from collections.abc import Callable, Iterable, Mapping
from contextvars import Token
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from verl_otel import runtime, semconv
from verl_otel.guard import guard
from verl_otel.semconv import MetricName
from verl_otel.telemetry import content, failure, hooks
from verl_otel.telemetry.instruments import measure, produce
from verl_otel.telemetry.scope import Scope, within

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

Attributes = Mapping[str, Any]


class Open(NamedTuple):
    """A recording that lasts; `since`: monotonic seconds. `shown`: see `Recording`."""

    shown: Attributes | None
    since: float
    recording: "Recording"


_open: dict[int, Open] = {}
_numbers = itertools.count()

_listeners: "list[Callable[[Attributes, float], None]]" = []


def on_end(listen: "Callable[[Attributes, float], None]") -> None:
    """Have `listen` called at the end of whatever is shown while open: its attributes, and its seconds."""
    _listeners.append(listen)


_Labels = tuple[tuple[str, Any], ...]
_longest: dict[_Labels, float] = {}
"""Longest time, in s, of what ended so far, by the attributes of its histogram."""


class Recording:
    """A span from its start to `stop` or `fail`, whichever comes first; later calls do nothing.

    No method raises, so that wrappers need no guard of their own round them.
    """

    def __init__(
        self,
        name: str,
        attributes: Attributes,
        *,
        scope: Scope,
        root: bool = False,
        parent: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Iterable[trace.SpanContext] = (),
        duration: tuple[MetricName, Attributes] | None = None,
        shown_open: Attributes | None = None,
        sampled: bool = True,
        private: bool = False,
        decisive: bool = True,
        start_time: int | None = None,
    ) -> None:
        """`root`: begin a trace. `parent`: context to start in, default the current one; of a root, what it adds to.

        `duration`: histogram (s) and its attributes.
        `shown_open`: attributes under which `verl.phase.open.duration` shows the span while it lasts, None not to.
        `sampled`: whether it is exported, and what is below it.
        `decisive`: its failure may be what the run ends in.
        `private`: its exceptions may hold what a model or a tool wrote, and lose their text unless content is captured.
        `start_time`: ns since the epoch, default now.
        """
        self.span: Span = trace.INVALID_SPAN
        self.attributes = attributes
        self._token: Token[Context] | None = None
        self._ended = False
        self.step = scope.step
        self._private, self._decisive = private, decisive
        self._shown = shown_open
        self._duration = duration
        self._number = next(_numbers)
        self._since = monotonic()
        with guard(f"span {name}"):
            self.span = _unsampled(root, sampled, parent) or runtime.current().tracer.start_span(
                name,
                context=Context() if root else parent,
                kind=kind,
                attributes={key: value for key, value in attributes.items() if value is not None},
                links=[trace.Link(one) for one in links if one.is_valid],
                start_time=start_time,
                record_exception=False,
                set_status_on_exception=False,
            )
            if root:
                scope = scope._replace(root=self.span.get_span_context().span_id)
            hooks.on_span(self.span, name)
            self._token = context.attach(trace.set_span_in_context(self.span, within(scope, parent)))
            _open[self._number] = Open(shown_open, self._since, self)

    def set(self, attributes: Attributes) -> None:
        """Add attributes; those that are None are left out."""
        with guard("span attributes"):
            self.span.set_attributes({key: value for key, value in attributes.items() if value is not None})

    def stop(self) -> None:
        """End the span."""
        self._end(None, succeeded=self._shown is not None)

    def fail(self, error: BaseException) -> None:
        """End the span with an error status and the exception; the caller raises it on."""
        if self._shown is not None and self._decisive and not self._ended:
            with guard("noting a failure"):
                failure.note(error, {**self._shown, semconv.STEP: self.step}, private=self._private)
        self._end(error)

    def refuse(self, reason: str) -> None:
        """Mark it as failed without an exception: `reason` says why."""
        with guard("span status"):
            self.span.set_status(Status(StatusCode.ERROR, reason))

    def truncate(self) -> None:
        """End the span at an orderly end of the process's work, marked as cut off."""
        self.set({semconv.TRUNCATED: True})
        self._end(None, leave=False)  # whoever opened the span leaves its context, when it comes to its end

    def detach(self) -> None:
        """No longer the current span of this context; it stays open."""
        token, self._token = self._token, None
        if token is not None:
            with guard("leaving a span's context"):
                context.detach(token)

    def _end(self, error: BaseException | None, *, leave: bool = True, succeeded: bool = False) -> None:
        if not self._ended:
            self._ended = True
            self._finish(error)
            if succeeded:
                with guard("noting a success"):
                    failure.succeeded()
        if leave:
            self.detach()

    def _finish(self, error: BaseException | None) -> None:
        _open.pop(self._number, None)
        if error is not None:
            # Apart: an exception whose text can't be made must cost neither its duration nor the span.
            with guard("ending a span"):
                self.span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                self._describe(error)
        seconds = monotonic() - self._since
        with guard("ending a span"):
            self.span.end()
        if self._shown is not None:
            for listen in _listeners:
                with guard("telling of an end"):
                    listen({**self._shown, semconv.STEP: self.step}, seconds)
        if self._duration is not None:
            with guard("measuring a duration"):
                metric, attributes = self._duration
                measure(metric, seconds, attributes, self.span)
                labels = _labels(attributes)
                _longest[labels] = max(seconds, _longest.get(labels, 0.0))

    def _describe(self, error: BaseException) -> None:
        if not content.shareable(error, private=self._private):
            self.span.add_event("exception", content.without_text(error))
        else:
            self.span.set_status(Status(StatusCode.ERROR, _describe(error)))
            self.span.record_exception(error)

    @property
    def seconds(self) -> float:
        """Since its start."""
        return monotonic() - self._since

    @property
    def duration_labels(self) -> _Labels:
        """What it is compared with: attributes of its histogram, none if it has no duration."""
        return _labels(self._duration[1]) if self._duration is not None else ()


def _unsampled(root: bool, sampled: bool, parent: Context | None) -> Span | None:
    """What stands for a span that isn't exported, with all below it, whatever the sampler would say; else None."""
    if root and sampled:
        return None
    if root:
        from verl_otel.ids import SystemIdGenerator  # not at the top: it needs the SDK

        ids = SystemIdGenerator()
        return trace.NonRecordingSpan(trace.SpanContext(ids.generate_trace_id(), ids.generate_span_id(), False))
    above = trace.get_current_span(parent).get_span_context()
    if not above.is_valid or (sampled and above.trace_flags.sampled):
        return None
    return trace.NonRecordingSpan(trace.SpanContext(above.trace_id, above.span_id, above.is_remote))


def _labels(attributes: Attributes) -> _Labels:
    return tuple(sorted(attributes.items()))


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def open_durations(time: int) -> "Iterable[Metric]":
    """The gauge `verl.phase.open.duration`: for how long what is open now has been so; of equals, the longest."""
    from verl_otel.delivery.points import gauge

    now = monotonic()
    longest: dict[_Labels, float] = {}
    for one in list(_open.values()):
        if one.shown is not None:
            labels = _labels(one.shown)
            longest[labels] = max(now - one.since, longest.get(labels, 0.0))
    return [gauge(semconv.OPEN_DURATION, [(dict(one), age) for one, age in longest.items()], time)] if longest else []


def shown_open() -> list[tuple[Attributes, int]]:
    """What is shown as open now: its attributes, and since when, in ns since the epoch."""
    now, wall = monotonic(), time_ns()
    return [(one.shown, wall - int((now - one.since) * 1e9)) for one in list(_open.values()) if one.shown is not None]


def innermost_open() -> dict[int, Open]:
    """What is shown as open now and has nothing open below it, by number."""
    shown = {number: one for number, one in list(_open.items()) if one.shown is not None}
    parents = [getattr(one.recording.span, "parent", None) for one in shown.values()]
    above = {parent.span_id for parent in parents if parent is not None}
    return {number: one for number, one in shown.items() if one.recording.span.get_span_context().span_id not in above}


def open_numbers() -> set[int]:
    """Numbers of everything that is open now."""
    return set(_open)


def longest(one: Open) -> float | None:
    """The longest that work of the same kind took in this process, in s; None if none has ended yet."""
    return _longest.get(one.recording.duration_labels)


def truncate_open() -> None:
    """End every open span of this process, innermost first, marked as truncated."""
    for number in sorted(_open, reverse=True):
        if (one := _open.get(number)) is not None:
            one.recording.truncate()


def reset() -> None:
    """Forget everything, in a forked child and between tests."""
    _open.clear()
    _longest.clear()


os.register_at_fork(after_in_child=reset)


def _look_for_stuck() -> None:
    from verl_otel.telemetry import stuck  # it looks at what is open here

    stuck.check()


produce(open_durations)
runtime.on_start(lambda started: started.pipeline.watch(_look_for_stuck))
