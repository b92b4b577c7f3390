"""`DistProfiler`: it profiles as before; where and what it wrote is said in an event, by the process that wrote it."""

import functools
from collections.abc import Callable
from time import monotonic
from typing import Any, Final
from weakref import WeakKeyDictionary

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor
from verl_otel.patching import patches
from verl_otel.telemetry import events, scope

_NAME: Final = "verl_profiler"

_since: "WeakKeyDictionary[Any, float]" = WeakKeyDictionary()


def is_profiling(profiler: Any) -> bool:
    """Whether it records now: switched on, for this rank and this step."""
    return bool(profiler.check_enable() and profiler.check_this_rank() and profiler.check_this_step())


def read_capture(profiler: Any) -> dict[str, Any]:
    """Tool, rank, role and output path of a profiler."""
    return {
        semconv.PROFILER_TOOL: getattr(profiler.config, "tool", None),
        semconv.PROFILER_PATH: getattr(profiler.config, "save_path", None),
        semconv.RANK: int(profiler.rank),
        semconv.ROLE: getattr(profiler, "save_file_prefix", None),
        semconv.STEP: scope.current().step,
    }


def wrap_start(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note when the recording began."""

    @functools.wraps(original)
    def start(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        with guard("profiler start"):
            if patches(_NAME).active and is_profiling(self):
                _since[self] = monotonic()
        return result

    return start


def wrap_stop(original: Callable[..., Any]) -> Callable[..., Any]:
    """Say what was recorded, after it is written."""

    @functools.wraps(original)
    def stop(self: Any, *args: Any, **kwargs: Any) -> Any:
        since = _since.pop(self, None)
        result = original(self, *args, **kwargs)
        if since is not None and patches(_NAME).active:
            with guard("profiler stop"):
                taken = {**read_capture(self), semconv.PROFILER_DURATION: monotonic() - since}
                events.emit(semconv.EVENT_PROFILE, taken)
        return result

    return stop


class ProfilerInstrumentor(VerlInstrumentor):
    """Profiler captures as events, from `verl.utils.profiler.profile.DistProfiler`."""

    name = _NAME
    targets = (
        Target("verl.utils.profiler.profile", "DistProfiler.start", wrap_start),
        Target("verl.utils.profiler.profile", "DistProfiler.stop", wrap_stop),
    )
