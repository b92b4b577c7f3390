"""What every instrumentor of ours shares: a table of targets, wrapped when the user imports them, restored exactly."""

import functools
import os
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any, ClassVar, Final, Protocol

from opentelemetry import context
from opentelemetry.context import Context
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from verl_otel import neutrality
from verl_otel.guard import guard, say
from verl_otel.patching import Patches, Wrapper, patches
from verl_otel.settings import peek

DEPENDENCIES: Final = ("verl >= 0.7.1.dev0",)


@dataclass(frozen=True)
class Target:
    """An attribute of verl's that is wrapped.

    `reads` are the parameters that the wrapper takes by name; the contract tests hold them, and the attribute itself,
    against every verl release from `since` to `until`.
    """

    module: str
    attribute: str
    wrapper: Wrapper
    reads: tuple[str, ...] = ()
    since: str = "0.7.1"
    until: str | None = None

    def expected_in(self, version: str) -> bool:
        """Whether a release of verl has it, as far as the table knows."""
        from packaging.version import Version  # not at the top: it takes as long as all of this module

        here = Version(version)
        return here >= Version(self.since) and (self.until is None or here <= Version(self.until))


class VerlInstrumentor(BaseInstrumentor):  # type: ignore[misc] # opentelemetry-instrumentation has no types
    """Base of the instrumentors. Instrumenting imports nothing of verl, Ray or torch, and never raises."""

    name: ClassVar[str]
    """Of the entry point, for OTEL_PYTHON_DISABLED_INSTRUMENTATIONS."""
    targets: ClassVar[Sequence[Target]] = ()

    @property
    def patches(self) -> Patches:
        """The replacements this instrumentor made."""
        return patches(self.name)

    def instrumentation_dependencies(self) -> Collection[str]:
        """What is instrumented; `.dev0` lets a development version of verl in."""
        return DEPENDENCIES

    def _instrument(self, *, by_program: bool = False, **_: Any) -> None:
        if switched_off():
            return
        with guard(f"instrumenting {self.name}"):
            self.patches.start()
            if by_program:
                neutrality.protect()
            else:  # a program without verl keeps its OpenTelemetry as it is
                self.patches.when_imported("verl", lambda _: neutrality.protect())
            for module in dict.fromkeys(target.module for target in self.targets):
                self.patches.when_imported(module, self._wrap_targets)
            self._patch_more(by_program=by_program)

    def _uninstrument(self, **_: Any) -> None:
        with guard(f"uninstrumenting {self.name}"):
            self.patches.undo()

    def _patch_more(self, *, by_program: bool) -> None:
        """For targets that a table can't name. `by_program`: `instrument()` was called, so verl is sure to come."""

    def _wrap_targets(self, module: ModuleType) -> None:
        for target in self.targets:
            if target.module == module.__name__:
                with guard(f"patch {target.module}.{target.attribute}"):
                    self._wrap_target(module, target)

    def _wrap_target(self, module: ModuleType, target: Target) -> None:
        *path, name = target.attribute.split(".")
        owner = functools.reduce(lambda found, part: getattr(found, part, None), path, module)  # type: ignore[arg-type, return-value]
        if owner is None or not self.patches.wrap(owner, name, target.wrapper):
            _warn_missing(target)


def switched_off() -> bool:
    """Whether OTEL_SDK_DISABLED or VERL_OTEL_ENABLED=false says to leave everything alone."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or peek("enabled") is False


def _warn_missing(target: Target) -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        here = version("verl")
    except PackageNotFoundError:
        return
    if target.expected_in(here):
        say(
            f"verl {here} has no {target.module}.{target.attribute}: what is read there is missing, the rest works; "
            f"a newer verl-otel may know it"
        )


class Observation(Protocol):
    """What a wrapper starts before the user's call and ends after it; `Recording` is one."""

    def stop(self) -> None:
        """The call returned."""

    def fail(self, error: BaseException) -> None:
        """The call raised."""


def observed(
    own: Patches,
    start: Callable[..., Observation | None],
    read: Callable[[Any, Any], None] | None = None,
) -> Wrapper:
    """A wrapper that observes each call: `start` is given its arguments, `read` the observation and the result.

    Serves functions and coroutine functions; the user's call is outside every guard and its exception passes as it is.
    """

    def begin(args: Any, kwargs: Any) -> Observation | None:
        with guard(beginning):
            return start(*args, **kwargs) if own.active else None
        return None

    def finish(observation: Observation | None, result: Any) -> None:
        if observation is not None:
            if read is not None:
                with guard(reading):
                    read(observation, result)
            with guard(ending):
                observation.stop()

    def failed(observation: Observation | None, error: BaseException) -> None:
        if observation is not None:
            with guard(ending):
                observation.fail(error)

    # Named once, not at each call.
    beginning, ending = f"{own.name} {start.__name__}", f"{own.name} ending {start.__name__}"
    reading = f"{own.name} {read.__name__}" if read is not None else ""

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        if iscoroutinefunction(original):

            @functools.wraps(original)
            async def observed_coroutine(*args: Any, **kwargs: Any) -> Any:
                observation = begin(args, kwargs)
                try:
                    result = await original(*args, **kwargs)
                except BaseException as error:
                    failed(observation, error)
                    raise
                finish(observation, result)
                return result

            return observed_coroutine

        @functools.wraps(original)
        def observed_function(*args: Any, **kwargs: Any) -> Any:
            observation = begin(args, kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                failed(observation, error)
                raise
            finish(observation, result)
            return result

        return observed_function

    return wrapper


def read_after(own: Patches, place: str, read: Callable[..., None]) -> Wrapper:
    """A wrapper that gives `read` the result of each call that returned, and then the call's arguments.

    `place`: under which its failures are counted.
    """

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def called(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if own.active:
                with guard(place):
                    read(result, *args, **kwargs)
            return result

        return called

    return wrapper


async def _within(here: Context, work: Awaitable[Any]) -> Any:
    token = context.attach(here)
    try:
        return await work
    finally:
        context.detach(token)


def observed_auto_await(own: Patches, start: Callable[..., Observation | None]) -> Wrapper:
    """`observed` for what verl's `auto_await` decorates: that looks at its caller's frame, and must stay outermost."""
    observe = observed(own, start)

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        inner = getattr(original, "__wrapped__", None)
        if inner is None or iscoroutinefunction(original):
            return observe(original)
        observed_inner = observe(inner)

        @functools.wraps(inner)
        def begin(*args: Any, **kwargs: Any) -> Any:
            # It may run the coroutine in another thread, which has no context.
            return _within(context.get_current(), observed_inner(*args, **kwargs))

        auto_await = sys.modules["verl.utils.ray_utils"].auto_await
        decorated: Callable[..., Any] = auto_await(begin)
        return decorated

    return wrapper
