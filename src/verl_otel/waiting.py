"""`instrument()` in a program that has imported neither verl nor Ray yet: it waits, and imports next to nothing.

The instrumentors, and OpenTelemetry with them, are imported when either is. Most of what they cost is thereby part of
importing verl, which takes seconds.
"""

import sys
from types import ModuleType
from typing import Final

import wrapt

from verl_otel.guard import guard

AWAITED: Final = ("verl", "ray")

_wanted = False
_waiting = False


def instrument() -> None:
    """Instrument now if verl or Ray is there, else as soon as one is."""
    global _wanted, _waiting
    _wanted = True
    if any(name in sys.modules for name in AWAITED):
        # The SDK raises at import for a propagator in OTEL_PROPAGATORS that isn't installed, for one.
        with guard("instrumenting"):
            _enter()
    elif not _waiting:
        _waiting = True  # wrapt can't withdraw a hook
        for name in AWAITED:
            wrapt.register_post_import_hook(_imported, name)


def uninstrument() -> None:
    """Undo it, if it was done, and wait no more."""
    global _wanted
    _wanted = False
    if (door := sys.modules.get("verl_otel.door")) is not None:
        door.uninstrument()


def _imported(_: ModuleType) -> None:
    if _wanted:
        with guard("instrumenting"):
            _enter()


def _enter() -> None:
    from verl_otel import door

    door.instrument()
