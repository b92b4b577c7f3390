"""Code that travels: Ray pickles what stands here by value, into actor classes, tasks and the worker set-up.

A process that gets it may not have verl-otel installed. So nothing of ours is imported at the top, each function
imports what it needs when it is called, and without the package it does just what it would have done without us.
This module is registered with Ray's cloudpickle as one to pickle by value.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

KEYWORD = "_verl_otel_context"
"""The keyword argument that carries the context over a call."""

WATCHES = "__verl_otel_watches__"
"""Attribute of our `ray.get`."""

CARRIES = "__verl_otel_carries__"
"""Attribute of a method that takes the keyword; it survives pickling, unlike `__signature__`."""


def carrying(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, of any kind that Ray runs, taking the keyword too and running in the context it brings."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def carried(*args: Any, _verl_otel_context: Any = None, **kwargs: Any) -> Any:
            leave = entered(_verl_otel_context)
            try:
                return await function(*args, **kwargs)
            finally:
                leave()

    elif inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def carried(*args: Any, _verl_otel_context: Any = None, **kwargs: Any) -> Any:
            leave = entered(_verl_otel_context)
            try:
                async for one in function(*args, **kwargs):
                    yield one
            finally:
                leave()

    elif inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def carried(*args: Any, _verl_otel_context: Any = None, **kwargs: Any) -> Any:
            leave = entered(_verl_otel_context)
            try:
                return (yield from function(*args, **kwargs))
            finally:
                leave()

    else:

        @functools.wraps(function)
        def carried(*args: Any, _verl_otel_context: Any = None, **kwargs: Any) -> Any:
            leave = entered(_verl_otel_context)
            try:
                return function(*args, **kwargs)
            finally:
                leave()

    setattr(carried, CARRIES, True)
    return carried


def entered(carrier: Any) -> Callable[[], None]:
    """Enter the context that a carrier brings; returns what leaves it again."""
    if carrier is None:
        return _nothing
    enter = _ours("verl_otel.ray.context", "enter")
    return enter(carrier) if enter is not None else _nothing


def _ours(module: str, name: str) -> Any:
    """A function of the package, or None in a process where it isn't installed, or is broken."""
    import importlib

    try:
        return getattr(importlib.import_module(module), name)
    except Exception:  # noqa: BLE001 - a broken install raises anything
        return None


def _nothing() -> None:
    return None


def watching(get: Callable[..., Any]) -> Callable[..., Any]:
    """`ray.get`, telling what it ended in. Ray pickles its own by value, so a task's closure may bring this along."""

    @functools.wraps(get)
    def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            result = get(*args, **kwargs)
        except BaseException as error:
            noted(error)
            raise
        noted(None)
        return result

    setattr(watched, WATCHES, True)
    return watched


def noted(error: Any) -> None:
    """Pass on how a wait ended."""
    if (note_wait := _ours("verl_otel.ray.ending", "note_wait")) is not None:
        note_wait(error)


def worker_setup(theirs: Any, hooks: Any = None) -> Callable[[], None]:
    """The function Ray calls when a worker process starts: ours, then the job's own (a callable or a dotted name).

    `hooks`: the user's, pickled; a process without the package doesn't look at them.
    """

    def set_up_worker() -> None:
        if (set_up := _ours("verl_otel.ray.worker", "set_up")) is not None:
            set_up(hooks)
        if isinstance(theirs, str):
            import importlib

            module, _, name = theirs.rpartition(".")
            getattr(importlib.import_module(module), name)()
        elif theirs is not None:
            theirs()

    return set_up_worker


def flush_actor(_: Any, seconds: float) -> Any:
    """Asked of an actor through `__ray_call__` when training has ended: end what is open, send all, ask its own.

    Returns the earliest error it knows of, or None.
    """
    end_actor = _ours("verl_otel.ray.ending", "end_actor")
    return end_actor(seconds) if end_actor is not None else None
