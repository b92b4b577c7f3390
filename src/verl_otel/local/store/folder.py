"""Where things are in the folder of the embedded backend, and who serves it."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from verl_otel.local.errors import LocalError

OTHER: Final = ""
"""Stands for a run's id where there is none."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}")


def default_folder() -> Path:
    """Where the backend keeps its data if nobody says otherwise."""
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "verl-otel" / "local"


@dataclass(frozen=True)
class Backend:
    """Who serves a folder. `url`: of page, API and OTLP/HTTP; `grpc`: host and port; `started`: ns since the epoch."""

    pid: int
    url: str
    grpc: str
    started: int


@dataclass(frozen=True)
class Folder:
    """Paths below it."""

    path: Path

    @property
    def journal(self) -> Path:
        """What was accepted and is in no database yet."""
        return self.path / "journal"

    @property
    def runs(self) -> Path:
        """Databases and summaries."""
        return self.path / "runs"

    @property
    def token(self) -> Path:
        """What clients must show, where the server is bound to more than loopback."""
        return self.path / "token"

    def database(self, run: str) -> Path:
        """Of a run, or of what names none."""
        return self.runs / f"{file_name(run)}.duckdb" if run != OTHER else self.path / "other.duckdb"

    def summary(self, run: str) -> Path:
        """What the list of runs shows of it."""
        return self.runs / f"{file_name(run)}.json"

    @property
    def set_aside(self) -> Path:
        """Requests that were accepted and can't be stored."""
        return self.path / "set-aside.otlp"

    def make(self) -> None:
        """Make what is missing. Raises `LocalError` if it can't be written."""
        try:
            for one in (self.path, self.journal, self.runs):
                one.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o700)
        except OSError as error:
            raise LocalError(f"{self.path} can't be written ({error.strerror}): give another with --folder") from error

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """One process at a time serves a folder. Raises `LocalError`."""
        self.make()
        with (self.path / "lock").open("w") as lock:
            try:
                # The kernel's: it goes with its process, so none is ever stale.
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                backend = self.backend()
                who = f"by process {backend.pid} at {backend.url}" if backend else "already"
                raise LocalError(
                    f"{self.path} is served {who}: use that, or give another folder with --folder"
                ) from None
            try:
                yield
            finally:
                self._backend.unlink(missing_ok=True)

    def announce(self, backend: Backend) -> None:
        """Write who serves it, whole or not at all."""
        write_whole(self._backend, asdict(backend))

    def backend(self) -> Backend | None:
        """Who serves it now; None if nobody does."""
        try:
            found = Backend(**json.loads(self._backend.read_text()))
            os.kill(found.pid, 0)
        except (OSError, ValueError, TypeError):
            return None
        return found

    @property
    def _backend(self) -> Path:
        return self.path / "backend.json"


def file_name(run: str) -> str:
    """A run's id as the name of a file: itself where it is plain, else its plain letters and a digest."""
    if _PLAIN.fullmatch(run):
        return run
    digest = hashlib.sha256(run.encode(errors="surrogatepass")).hexdigest()[:16]
    return re.sub(r"[^A-Za-z0-9_-]", "_", run)[:60] + "~" + digest


def write_whole(path: Path, content: Any) -> None:
    """Write JSON so that a reader finds the old or the new. Raises `OSError`."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(json.dumps(content))
    new.replace(path)
