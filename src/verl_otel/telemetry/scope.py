"""Which step and phase the code at hand works for: kept in the OTel context, carried to other processes beside it."""

import functools
import json
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_KEY: Final = context.create_key("verl-otel-scope")
_CARRIED: Final = "verl-scope"
_W3C: Final = TraceContextTextMapPropagator()


@dataclass(frozen=True)
class Scope:
    """Step, timer name, whether it is validation, and the span id of the trace's root; None where unknown.

    Role and rank are of the worker whose call runs here, and not carried to others.
    """

    step: int | None = None
    phase: str | None = None
    validation: bool = False
    root: int | None = None
    role: str | None = None
    rank: int | None = None


def current() -> Scope:
    """The scope of the current context; empty if none was set."""
    found = context.get_value(_KEY)
    return found if isinstance(found, Scope) else Scope()


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


def inject(carrier: MutableMapping[str, str]) -> bool:
    """Write the current span (W3C trace context) and scope; False, and nothing written, if there is no span.

    The user's propagators (baggage, B3) are not asked: this travels from us to us.
    """
    if not trace.get_current_span().get_span_context().is_valid:
        return False
    _W3C.inject(carrier)
    scope = current()
    carrier[_CARRIED] = json.dumps([scope.step, scope.phase, scope.validation, scope.root])
    return True


def extract(carrier: Mapping[str, str]) -> Context:
    """The context that `inject` wrote, on top of the current one."""
    extracted = _W3C.extract(carrier)
    carried = carrier.get(_CARRIED)
    return within(Scope(*json.loads(carried)) if carried else Scope(), extracted)
