"""Which step and phase the code at hand works for: kept in the OTel context, carried to other processes beside it."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_KEY: Final = context.create_key("verl-otel-scope")
_CARRIED: Final = "verl-scope"
_W3C: Final = TraceContextTextMapPropagator()


@dataclass(frozen=True)
class Scope:
    """Step, verl's timer name, and whether it is validation; None where unknown."""

    step: int | None = None
    phase: str | None = None
    validation: bool = False


def current() -> Scope:
    """The scope of the current context; empty if none was set."""
    found = context.get_value(_KEY)
    return found if isinstance(found, Scope) else Scope()


def within(scope: Scope, parent: Context | None = None) -> Context:
    """A context with `scope`, from `parent` or the current one."""
    return context.set_value(_KEY, scope, parent)


def inject(carrier: MutableMapping[str, str]) -> bool:
    """Write the current span (W3C trace context) and scope; False, and nothing written, if there is no span.

    The user's propagators (baggage, B3) are not asked: this travels from us to us.
    """
    if not trace.get_current_span().get_span_context().is_valid:
        return False
    _W3C.inject(carrier)
    scope = current()
    carrier[_CARRIED] = f"{'' if scope.step is None else scope.step};{scope.phase or ''};{int(scope.validation)}"
    return True


def extract(carrier: Mapping[str, str]) -> Context:
    """The context that `inject` wrote, on top of the current one."""
    extracted = _W3C.extract(carrier)
    step, phase, validation = [*carrier.get(_CARRIED, "").split(";"), "", ""][:3]
    scope = Scope(int(step) if step else None, phase or None, validation == "1")
    return within(scope, extracted)
