"""Stand-ins for packages that SGLang imports and never calls on a CPU: any submodule, any attribute, nothing behind."""

import importlib.abc
import importlib.machinery
import sys
import types
from unittest.mock import MagicMock

VALUES = ("InterpolationMode",)
"""Names that look like a class's and are used as a value."""


class _Module(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        is_class = name[:1].isupper() and name not in VALUES
        found = type(name, (), {"__class_getitem__": classmethod(lambda cls, _: cls)}) if is_class else MagicMock()
        setattr(self, name, found)
        return found


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, package):
        self._prefix = f"{package}."

    def find_spec(self, fullname, path=None, target=None):
        """Any submodule is there."""
        if fullname.startswith(self._prefix):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        """An empty one."""
        return _Module(spec.name)

    def exec_module(self, module):
        """It has no code."""


def stand_in(package):
    """Be that package; returns its `__getattr__`."""
    sys.meta_path.insert(0, _Finder(package))

    def get(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{package}.{name}")

    return get
