"""The user's own hooks: given to `instrument()`, or named in a variable; in every process of the run, behind a guard.

A span hook runs where the span starts, in the training's thread; a scalar hook in ours.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from opentelemetry.trace import Span

from verl_otel import runtime
from verl_otel.guard import guard

SpanHook = Callable[[Span, str], None]
"""Given each span of ours when it starts, and its name; it may set attributes."""
ScalarHook = Callable[[Mapping[str, float], int], Mapping[str, float] | None]
"""Given the scalars of each `Tracking.log` call by verl's keys, and the step; what it returns is exported too."""

_UNKNOWN: Final = object()

_given: dict[str, Any] = {}
_found: dict[str, Any] = {}


def give(span: SpanHook | None = None, scalar: ScalarHook | None = None) -> None:
    """Use these hooks in this process; None leaves one as it is."""
    _given.update({name: hook for name, hook in (("span", span), ("scalar", scalar)) if hook is not None})
    _found.clear()


def given() -> dict[str, Any]:
    """The hooks that were given as objects, by name, for other processes."""
    return dict(_given)


def on_span(span: Span, name: str) -> None:
    """Call the span hook, if there is one."""
    if (hook := _hook("span")) is not None:
        with guard("span hook"):
            hook(span, name)


def on_scalars(values: Mapping[str, float], step: int) -> Mapping[str, Any]:
    """What the scalar hook adds; nothing without one."""
    if (hook := _hook("scalar")) is not None:
        with guard("scalar hook"):
            return dict(hook(values, step) or {})
    return {}


def _hook(name: str) -> Any:
    if (hook := _found.get(name, _UNKNOWN)) is _UNKNOWN:
        hook = _given.get(name)
        if hook is None:
            with guard(f"loading the {name} hook"):
                hook = _load(getattr(runtime.current().settings, f"{name}_hook"))
        _found[name] = hook
    return hook


def _load(path: str | None) -> Any:
    if path is None:
        return None
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def reset() -> None:
    """Forget all hooks, between tests."""
    _given.clear()
    _found.clear()
