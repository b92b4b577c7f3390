"""Replacing attributes of other people's modules and classes, and putting back the identical objects.

Nothing here imports a target: replacements wait for the user's own import (wrapt's post-import hooks). OTel's `unwrap`
is not used: it turns static and class methods into something else and peels off other people's wrappers.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import wrapt

from verl_otel.guard import guard, say

_MISSING: Final = object()

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Takes the original function and gives the one that stands in its place (made with `functools.wraps`)."""


class Patches:
    """The replacements of one instrumentor: made as modules appear, undone in reverse.

    Wrappers ask `active` at each call, because callers keep bound methods, and Ray keeps classes, that outlive an undo.
    """

    def __init__(self, name: str) -> None:
        """`name`: of the instrumentor; one object a name and process, see `patches`."""
        self.name = name
        self.active = False
        self._hooks = 0
        self._done: list[tuple[Any, str, Any, Any]] = []

    def when_imported(self, module: str, apply: Callable[[ModuleType], None]) -> None:
        """Run `apply(module)` once it is imported, or now if it already was. An exception never reaches the import."""
        generation = self._hooks

        def hook(imported: ModuleType) -> None:
            # wrapt can't withdraw a hook, so one that outlives its instrumentation must find out by itself.
            if self.active and self._hooks == generation:
                with guard(f"patch {module}"):
                    apply(imported)

        wrapt.register_post_import_hook(hook, module)

    def wrap(self, owner: Any, name: str, wrapper: Wrapper) -> bool:
        """Put `wrapper(original)` in place of the attribute `name` of a module or class.

        Static and class methods stay what they are, and an inherited method is shadowed, to be deleted again. What was
        imported by value from where it was wrapped already is only put back with that. Returns False, and changes
        nothing, where there is no such attribute.
        """
        before = vars(owner).get(name, _MISSING)
        found = before if before is not _MISSING else getattr(owner, name, _MISSING)
        if found is _MISSING:
            return False
        for home, known_as, original, replacement in self._done:
            if before is replacement and not (home is owner and known_as == name):
                self._done.append((owner, name, original, replacement))
                return True
        if isinstance(found, staticmethod | classmethod):
            after: Any = type(found)(wrapper(found.__func__))
        else:
            after = wrapper(found)
        self.replace(owner, name, after)
        return True

    def require(self, owner: Any, name: str, wrapper: Wrapper) -> None:
        """Wrap an attribute of Ray's that may change with its version, and say what is lost if it is gone."""
        if not self.wrap(owner, name, wrapper):
            where = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", owner)
            say(f"this Ray has no {where}.{name}: workers may not be reached, or spans not be joined; the rest works")

    def require_public(self, package: Any, name: str, wrapper: Wrapper) -> None:
        """`require` for a name that a package shows and a module of it defines: both get the same object.

        A function is pickled by where it says it is defined; found there as another object, it would travel by value.
        """
        original = getattr(package, name, None)
        self.require(package, name, wrapper)
        home = sys.modules.get(getattr(original, "__module__", ""))
        if home is not None and home is not package and getattr(home, name, None) is original:
            self.replace(home, name, getattr(package, name))

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute and note what was there."""
        before = vars(owner).get(name, _MISSING)
        setattr(owner, name, value)
        self._done.append((owner, name, before, vars(owner)[name]))

    def __reduce__(self) -> tuple[Any, ...]:
        # A class that outlives an undo is pickled by Ray with our wrappers, by value, and they name this object.
        return patches, (self.name,)

    def start(self) -> None:
        """From now on hooks fire and wrappers record."""
        self.active = True

    def undo(self) -> None:
        """Put everything back that is still ours. What someone wrapped after us stays, and passes calls through."""
        self.active = False
        self._hooks += 1
        while self._done:
            owner, name, before, after = self._done.pop()
            if vars(owner).get(name, _MISSING) is not after:
                continue
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


_by_name: dict[str, Patches] = {}


def patches(name: str) -> Patches:
    """The `Patches` of an instrumentor in this process."""
    return _by_name.setdefault(name, Patches(name))
