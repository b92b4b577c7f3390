"""verl's released wheels, unpacked and read without importing them: old ones can't be imported beside a new torch."""

import ast
import functools
import subprocess
import sys
import zipfile
from pathlib import Path

VERSIONS = ("0.7.1", "0.8.0", "0.9.0", "0.9.1")
CACHE = Path(__file__).resolve().parents[2] / ".work" / "wheels"


@functools.cache
def unpacked(version: str) -> Path:
    """The folder of a release's files; fetched once by pip (2 MB each)."""
    folder = CACHE / f"verl-{version}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check"]
        subprocess.run([*pip, "-d", str(CACHE), f"verl=={version}"], check=True)
        (wheel,) = CACHE.glob(f"verl-{version}-*.whl")
        partial = folder.with_suffix(".partial")
        zipfile.ZipFile(wheel).extractall(partial)
        partial.rename(folder)
    metadata = (folder / f"verl-{version}.dist-info" / "METADATA").read_text()
    assert f"Version: {version}" in metadata  # a matrix must run what it says
    return folder


@functools.cache
def tree(version: str, module: str) -> ast.Module | None:
    """The syntax tree of a module, or None if the wheel lacks it."""
    path = unpacked(version).joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return ast.parse(file.read_text())
    return None


def find(version: str, module: str, attribute: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The definition of `Class.method` or `function` in a module; inherited ones are not looked for."""
    node: ast.AST | None = tree(version, module)
    for name in attribute.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        body = getattr(node, "body", ())
        node = next((one for one in body if isinstance(one, kinds) and one.name == name), None)
    return node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names of all parameters."""
    arguments = function.args
    return {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
