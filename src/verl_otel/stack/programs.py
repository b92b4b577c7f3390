"""Which binary is used for each program: one that the user named, ours, or one that the machine has."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from verl_otel.stack import StackError
from verl_otel.stack.releases import RELEASES, Release


@dataclass(frozen=True)
class Program:
    """A binary; `version` is empty where it says none, as one that was built by hand."""

    name: str
    path: Path
    version: str


def find(name: str, named: Path | None, installed: Path) -> Program:
    """The binary of a program: `named`, else that in the folder `installed`, else the machine's own.

    Raises `StackError` if there is none, it doesn't run, or our configuration isn't for its version.
    """
    release = RELEASES[name]
    path = named or _installed(release, installed) or _of_the_machine(release)
    if path is None:
        raise StackError(
            f"{name} is not here: `verl-otel stack install {name}`, or name yours with --{name}, or --without {name}"
        )
    version = _ask_version(path)
    least, below = release.takes
    if version and (_parts(version) < _parts(least) or (below and _parts(version) >= _parts(below))):
        taken = f"{least} and newer" + (f", below {below}" if below else "")
        raise StackError(
            f"{path} is {name} {version}, and our configuration takes {taken}: `verl-otel stack install {name}`"
        )
    return Program(name, path.absolute(), version)


def _installed(release: Release, folder: Path) -> Path | None:
    found = folder / f"{release.name}-{release.version}" / release.binary
    return found if found.exists() else None


def _of_the_machine(release: Release) -> Path | None:
    return next((Path(found) for one in release.commands if (found := shutil.which(one))), None)


def _ask_version(path: Path) -> str:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise StackError(f"{path} doesn't run ({reason}): is it for this machine?") from error
    found = re.search(r"\bv?(\d+\.\d+\.\d+)", (said.stdout + said.stderr).partition("\n")[0])
    return found.group(1) if found else ""


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
