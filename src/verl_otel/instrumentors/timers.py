"""verl's timers: every `marked_timer` of a trainer is a phase of its step.

`performance._timer` is replaced, since every variant (plain, nvtx, mstx) ends in it however it was imported.
"""

import functools
from collections.abc import Callable, Generator
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor
from verl_otel.instrumentors.trainers import STOPS
from verl_otel.patching import patches
from verl_otel.telemetry import steps
from verl_otel.telemetry.recording import Recording

_NAME: Final = "verl_timers"
_STEP: Final = "step"
_VALIDATION: Final = "testing"


def wrap_timer(original: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Generator[Any, Any, Any]]:
    """Open a phase with the timer and close it with it."""

    @functools.wraps(original)
    def timer(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        name = args[0] if args else kwargs.get("name")
        phase = _open(name)
        try:
            yield from original(*args, **kwargs)
        except BaseException as error:
            if phase is not None and type(error).__name__ != STOPS:
                phase.fail(error)
            raise
        finally:
            if phase is not None:
                phase.stop()
                with guard("closing a phase"):
                    steps.phase_done(is_step=name == _STEP)

    return timer


def _open(name: Any) -> Recording | None:
    with guard("opening a phase"):
        if patches(_NAME).active:
            return steps.phase(str(name), is_step=name == _STEP, validation=name == _VALIDATION)
    return None


class TimersInstrumentor(VerlInstrumentor):
    """Phases, from `verl.utils.profiler.performance._timer`."""

    name = _NAME
    targets = (Target("verl.utils.profiler.performance", "_timer", wrap_timer, reads=("name", "timing_raw")),)
