"""The end of a run: every process sends what it has while the actors still live, within one short time.

No delivery depends on this: every process sends by itself within a second, metrics at their interval. Actors are held
weakly, since a strong handle would keep one alive that Ray had collected.
"""

import atexit
import contextlib
import functools
import sys
import weakref
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from verl_otel import runtime
from verl_otel.guard import guard
from verl_otel.patching import Patches
from verl_otel.ray import carried
from verl_otel.telemetry import failure, run
from verl_otel.telemetry.failure import Failure
from verl_otel.telemetry.recording import truncate_open

FIRST_SHARE: Final = 0.15
"""Of the time for a flush, what this process may take before it asks its actors."""
ACTORS_SHARE: Final = 0.6
"""Of the time for a flush, what the actors may take."""

_actors: "list[weakref.ref[Any]]" = []


def patch_actor_creation(own: Patches, actor_class: Any) -> None:
    """`actor_class`: `ray.actor.ActorClass`; remembers, weakly, what this process creates."""

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def create(self: Any, *args: Any, **kwargs: Any) -> Any:
            handle = original(self, *args, **kwargs)
            if own.active:
                with guard("remembering an actor"):
                    remember(handle)
            return handle

        return create

    own.require(actor_class, "_remote", wrapper)


def remember(handle: Any) -> None:
    """Note an actor weakly, and now and then forget those that are gone."""
    _actors.append(weakref.ref(handle))
    if len(_actors) % 256 == 0:
        _actors[:] = [one for one in _actors if one() is not None]


def patch_driver(own: Patches, ray: Any) -> None:
    """`ray`: the package, in a driver: its end must come before Ray's, and its failure is the run's."""
    own.require_public(ray, "shutdown", functools.partial(_wrap_shutdown, own))
    own.require(ray, "get", carried.watching)
    own.wrap(sys, "excepthook", functools.partial(_wrap_excepthook, own))
    # Ray registered its own at its import, and the last registered runs first.
    atexit.register(_end_driver, own)


def flush_run(seconds: float | None = None, *, before: Callable[[], None] | None = None) -> None:
    """Have this process and the actors it created send everything, in `seconds` (default: the setting) for all.

    `before`: called when the actors have answered, to add the last words of this process.
    """
    started = runtime.started()
    if started is None:
        return
    seconds = started.settings.flush_timeout if seconds is None else seconds
    deadline = monotonic() + seconds
    # First what is here: Ray gives a process that it ends by a signal a tenth of a second or two.
    started.flush(seconds * FIRST_SHARE)
    # One that hangs answers nothing; the time left is this process's own.
    failure.merge(_answers(_ask_actors(seconds * ACTORS_SHARE), monotonic() + seconds * ACTORS_SHARE))
    if before is not None:
        before()
    started.flush(deadline - monotonic())


def end_actor(seconds: float) -> Failure | None:
    """The end of an actor that will be killed: what it has open (a trajectory in flight) would be lost.

    Returns the earliest error that it, and those it asked, know of.
    """
    with guard("end of an actor"):
        truncate_open()
        flush_run(seconds)
    return failure.first()


def _ask_actors(seconds: float) -> list[Any]:
    ray = sys.modules.get("ray")
    # With the cluster gone, a call would make Ray start, or join, another one by itself.
    if ray is None or not ray.is_initialized():
        _actors.clear()
        return []
    living = [handle for reference in _actors if (handle := reference()) is not None]
    _actors[:] = [weakref.ref(handle) for handle in living]
    asked: list[Any] = []
    for handle in living:
        # An actor that died, or was never started, has nothing to send.
        with contextlib.suppress(Exception):
            asked.append(handle.__ray_call__.remote(carried.flush_actor, seconds))
    return asked


def _answers(asked: list[Any], deadline: float) -> list[Failure]:
    if not asked:
        return []
    import ray

    found = []
    with contextlib.suppress(Exception):
        ready, _ = ray.wait(asked, num_returns=len(asked), timeout=max(0.0, deadline - monotonic()))
        for one in ready:
            # Read, or Ray prints the error of an actor that has died.
            with contextlib.suppress(Exception):
                found.append(_get(one))
    return [one for one in found if isinstance(one, Failure)]


def _get(reference: Any) -> Any:
    import ray

    get: Any = ray.get
    # What our own waits end in is no outcome of the run's.
    return (get.__wrapped__ if getattr(get, carried.WATCHES, False) else get)(reference)


def _end_driver(own: Patches) -> None:
    if not own.active:
        return

    def say_last_words() -> None:
        run.end()
        truncate_open()

    with guard("end of the driver"):
        flush_run(before=say_last_words)


def _wrap_shutdown(own: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def shutdown(*args: Any, **kwargs: Any) -> Any:
        _end_driver(own)
        _actors.clear()
        return original(*args, **kwargs)

    return shutdown


def _wrap_excepthook(own: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def excepthook(kind: Any, error: BaseException, trace: Any) -> Any:
        if own.active:
            with guard("noting a failure"):
                run.note_outcome(Failure.of(error))
        return original(kind, error, trace)

    return excepthook


def note_wait(error: BaseException | None) -> None:
    """What a `ray.get` of this process ended in; the last word is the run's outcome."""
    # A time-out is an answer for a program that polls.
    if error is None or type(error).__name__ != "GetTimeoutError":
        with guard("noting a failure"):
            run.note_outcome(Failure.of(error) if error is not None else None)
