"""Every hook point of the instrumentors against what is installed, read as text: importing verl takes seconds."""

import ast
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from verl_otel.doctor.findings import Finding, State
from verl_otel.doctor.versions import installed
from verl_otel.door import INSTRUMENTORS
from verl_otel.instrumentors.base import Target

_LINK: Final = "hook points"
Function = ast.FunctionDef | ast.AsyncFunctionDef


def check() -> Iterator[Finding]:
    """One finding for all that are there, and one for each that this verl should have and hasn't."""
    if (here := installed("verl")) is None:
        return
    there = 0
    for kind in INSTRUMENTORS:
        for target in kind.targets:
            root = package_root(target.module)
            found = state(root, target) if root is not None else "no module"
            there += found == "there"
            if found != "there" and target.expected_in(here):
                detail = f"{target.module}.{target.attribute}: {found} in verl {here}"
                remedy = "what it tells is missing, the rest works; a newer verl-otel may know this verl"
                yield Finding(_LINK, kind.name, State.WARNING, detail, remedy)
    yield Finding(_LINK, "verl", State.OK, f"{there} found in verl {here}")


def state(root: Path, target: Target) -> str:
    """What stands at a hook point below `root`: there, changed (a parameter is missing), absent, or no module."""
    if (found := tree(root, target.module)) is None:
        return "no module"
    if (function := find(found, target.attribute)) is None:
        return "there" if _imports(found, target.attribute) else "absent"
    return "there" if set(target.reads) <= parameters(function) else "changed"


def package_root(module: str) -> Path | None:
    """The folder that holds the installed package of a module, found without importing it."""
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).parent


@functools.cache
def tree(root: Path, module: str) -> ast.Module | None:
    """The syntax tree of a module below `root`, or None if there is none."""
    path = root.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return ast.parse(file.read_text())
    return None


def find(module: ast.Module, attribute: str) -> Function | None:
    """The definition of `Class.method` or `function` in a module; inherited ones are not looked for."""
    node: ast.AST | None = module
    for name in attribute.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        body: list[ast.AST] = getattr(node, "body", [])
        node = next((one for one in body if isinstance(one, kinds) and one.name == name), None)
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


def _imports(module: ast.Module, name: str) -> bool:
    """Whether a module shows a name that another one defines."""
    imports = (one for one in module.body if isinstance(one, ast.ImportFrom))
    return any(
        alias.asname == name or (alias.asname is None and alias.name == name) for one in imports for alias in one.names
    )


def parameters(function: Function) -> set[str]:
    """Names of all parameters."""
    arguments = function.args
    return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
