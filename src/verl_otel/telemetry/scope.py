"""Which step and phase the code at hand works for: kept in the OTel context, carried to other processes beside it."""

import functools
import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from opentelemetry import context, trace
from opentelemetry.context import Context

_KEY: Final = context.create_key("verl-otel-scope")


class Scope(NamedTuple):
    """Step, timer name, whether it is validation, and the span id of the trace's root; None where unknown.

    `epoch`: of the training data. `share`: of the trajectories dispatched from here that are traced, None for all.
    Role and rank are of the worker whose call runs here, and not carried to others.
    """

    step: int | None = None
    phase: str | None = None
    validation: bool = False
    root: int | None = None
    epoch: int | None = None
    share: float | None = None
    role: str | None = None
    rank: int | None = None


_NOWHERE: Final = Scope()
_CARRIED: Final = Scope._fields.index("role")
"""How many of the fields, from the first, are carried to other processes."""


def current() -> Scope:
    """The scope of the current context; empty if none was set."""
    found = context.get_value(_KEY)
    return found if isinstance(found, Scope) else _NOWHERE


def within(scope: Scope, parent: Context | None = None) -> Context:
    """A context with `scope`, from `parent` or the current one."""
    return context.set_value(_KEY, scope, parent)


def bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, running in the context of now wherever it is called: a thread doesn't inherit one."""
    here = context.get_current()

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        token = context.attach(here)
        try:
            return function(*args, **kwargs)
        finally:
            context.detach(token)

    return run


def root() -> trace.SpanContext:
    """The root of the current span's trace, as far as the scope knows it; else the current span itself."""
    here, known = trace.get_current_span().get_span_context(), current().root
    if known is None or not here.is_valid:
        return here
    return trace.SpanContext(here.trace_id, known, here.is_remote, here.trace_flags, here.trace_state)


def inject() -> bytes | None:
    """The current span and scope, to be carried; None if there is neither.

    Bytes, since Ray sends those as they are and pickles anything else. The user's propagators (baggage, B3) are not
    asked: this travels from us to us.
    """
    here, carried = trace.get_current_span().get_span_context(), current()[:_CARRIED]
    if not here.is_valid and carried == _NOWHERE[:_CARRIED]:
        return None
    span = (here.trace_id, here.span_id, int(here.trace_flags), here.trace_state.to_header())
    return json.dumps([*span, *carried]).encode()


def extract(carrier: bytes) -> Context:
    """The context that `inject` wrote, on top of the current one."""
    trace_id, span_id, flags, state, *scope = json.loads(carrier)
    if not trace_id:
        return within(Scope(*scope))
    span = trace.SpanContext(trace_id, span_id, True, trace.TraceFlags(flags), trace.TraceState.from_header([state]))
    return within(Scope(*scope), trace.set_span_in_context(trace.NonRecordingSpan(span)))
