"""The context over Ray's calls: a keyword of ours that actors and tasks take, sent only to those that do.

Ray's own tracing can't be used (it breaks verl). Whoever creates an actor decides: its methods are wrapped before Ray
pickles them by value, with a mark. A process that rebuilds the method table from the pickled class finds the mark and
puts the keyword back into the table; one without this package never does, and so never sends it.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from inspect import Parameter
from types import ModuleType
from typing import Any, Final

from opentelemetry import context

from verl_otel.guard import guard
from verl_otel.patching import Patches
from verl_otel.ray.carried import CARRIES, KEYWORD, carrying
from verl_otel.telemetry import scope

_PARAMETER: Final = Parameter(KEYWORD, Parameter.KEYWORD_ONLY, default=None)


def enter(carrier: bytes) -> Callable[[], None]:
    """Make the carried context current; returns what leaves it. Neither raises."""
    with guard("entering a carried context"):
        token = context.attach(scope.extract(carrier))

        def leave() -> None:
            with guard("leaving a carried context"):
                context.detach(token)

        return leave
    return lambda: None


def patch_actors(own: Patches, actor: ModuleType) -> None:
    """`actor`: the module `ray.actor`."""
    own.require(actor, "_modify_class", functools.partial(_wrap_modify_class, own))
    own.require(actor._ActorClassMethodMetadata, "create", _wrap_create)  # noqa: SLF001 - Ray has no public seam
    own.require(actor.ActorHandle, "_actor_method_call", functools.partial(_wrap_method_call, own))


def patch_tasks(own: Patches, remote_function: ModuleType) -> None:
    """`remote_function`: the module `ray.remote_function`."""
    own.require(remote_function.RemoteFunction, "_remote", functools.partial(_wrap_task, own))


def _wrap_modify_class(own: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def modify_class(cls: Any) -> Any:
        modified = original(cls)
        # A class that Ray had modified before is shared; it was ours to wrap then.
        if own.active and modified is not cls:
            with guard("actor class"):
                _carry_methods(modified)
        return modified

    return modify_class


def _carry_methods(modified: type) -> None:
    for name, method in inspect.getmembers(modified, inspect.isfunction):
        static = isinstance(inspect.getattr_static(modified, name), staticmethod)
        # A plain function around a coroutine (verl's auto_await) looks at its caller, who must stay its caller.
        hides_a_coroutine = inspect.iscoroutinefunction(inspect.unwrap(method)) != inspect.iscoroutinefunction(method)
        if not name.startswith("__") and not static and not hides_a_coroutine:
            setattr(modified, name, carrying(method))


def _wrap_create(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def create(cls: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(cls, *args, **kwargs)
        with guard("actor method table"):
            for name, method in found.methods.items():
                if getattr(method, CARRIES, False) and not _takes(found.signatures[name]):
                    found.signatures[name] = _with_keyword(found.signatures[name])
        return found

    return create


def _wrap_method_call(own: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def actor_method_call(
        self: Any, method_name: str, args: Any = None, kwargs: Any = None, *rest: Any, **named: Any
    ) -> Any:
        if own.active:
            with guard("actor call"):
                kwargs = _carry(kwargs, self._ray_method_signatures.get(method_name, ()))
        return original(self, method_name, args, kwargs, *rest, **named)

    return actor_method_call


def _carried_task(function: Any) -> Any:
    carried = carrying(function)
    signature = inspect.signature(function)
    # Ray reads the signature of the wrapper, which is ours to set; the user's function keeps its own.
    carried.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=_with_keyword(list(signature.parameters.values()))
    )
    return carried


def _wrap_task(own: Patches, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def remote(self: Any, args: Any = None, kwargs: Any = None, *rest: Any, **named: Any) -> Any:
        if own.active and not _through_client():
            with guard("task call"):
                carries = getattr(self._function, CARRIES, False)
                # Within the first call Ray reads the function's signature, and exports it.
                if self._function_signature is None and not self._is_cross_language and not carries:
                    with guard("task function"):
                        self._function = _carried_task(self._function)
                        carries = True
                kwargs = _carry(kwargs, [_PARAMETER] if carries else ())
        return original(self, args, kwargs, *rest, **named)

    return remote


def _through_client() -> bool:
    """Whether Ray Client makes the call: its server runs the function as it is, without the keyword."""
    hook = sys.modules.get("ray._private.client_mode_hook")
    return hook is not None and bool(hook.client_mode_should_convert())


def _carry(kwargs: Any, signature: Any) -> Any:
    if _takes(signature) and (carrier := scope.inject()) is not None:
        return {**(kwargs or {}), KEYWORD: carrier}
    return kwargs


def _takes(signature: Any) -> bool:
    # It is the last one, or last but one; others are many.
    return any(parameter.name == KEYWORD for parameter in signature[-2:])


def _with_keyword(parameters: list[Parameter]) -> list[Parameter]:
    last = len(parameters)
    if parameters and parameters[-1].kind is Parameter.VAR_KEYWORD:
        last -= 1
    return [*parameters[:last], _PARAMETER, *parameters[last:]]
