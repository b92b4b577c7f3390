"""The user's own spans, made with OpenTelemetry's API alone in a reward, an agent loop or a tool: they join our traces.

The API gives such code a tracer that does nothing until a global provider is set. Ours is never global, since that can
be set once only; it serves while no other is. verl runs a reward in a thread, which doesn't inherit a context: it is
taken along.
"""

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, Final

from verl_otel import runtime
from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor
from verl_otel.patching import patches
from verl_otel.telemetry import scope

_NAME: Final = "verl_user_spans"
_NOT_THE_USERS: Final = ("vllm", "sglang", "ray")
"""Libraries that make spans of their own where they find a provider, of what we record already."""


def wrap_proxy(original: property) -> property:
    """`ProxyTracer._tracer`: the real tracer where there is one, else ours."""

    def tracer(self: Any) -> Any:
        found = original.__get__(self)
        if found is not self._noop_tracer or not patches(_NAME).active:
            return found
        with guard("a tracer for the user's spans"):
            name = self._instrumenting_module_name
            if name.split(".")[0] not in _NOT_THE_USERS:
                return runtime.current().tracer_for(name, self._instrumenting_library_version, self._schema_url)
        return found

    return property(tracer)


class _CarryingLoop:
    """The event loop, but that what it runs in a thread runs in the caller's OpenTelemetry context."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        if name == "_loop" or name.startswith("__"):  # asked of a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self._loop, name)

    def run_in_executor(self, executor: Any, function: Callable[..., Any], *args: Any) -> Any:
        """As the loop does; another process is not given a context."""
        if executor is None or isinstance(executor, ThreadPoolExecutor):
            function = scope.bound(function)
        return self._loop.run_in_executor(executor, function, *args)


def wrap_reward_manager(original: Callable[..., None]) -> Callable[..., None]:
    """Give a reward manager, which keeps its loop, one that carries the context."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if patches(_NAME).active:
            with guard("a reward's context"):
                self.loop = _CarryingLoop(self.loop)

    return init


class UserSpansInstrumentor(VerlInstrumentor):
    """OpenTelemetry's proxy tracer, and verl's reward managers."""

    name = _NAME
    targets = (
        Target(
            "verl.experimental.reward_loop.reward_manager.base",
            "RewardManagerBase.__init__",
            wrap_reward_manager,
        ),
    )

    def _patch_more(self, *, by_program: bool) -> None:
        self.patches.when_imported("verl", lambda _: self.patches.when_imported("opentelemetry.trace", self._serve))

    def _serve(self, api: ModuleType) -> None:
        proxy = api.ProxyTracer
        self.patches.replace(proxy, "_tracer", wrap_proxy(vars(proxy)["_tracer"]))
