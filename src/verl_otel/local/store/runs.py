"""The runs of a folder, by their summaries: no database is opened to list them."""

import contextlib
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from verl_otel.local.choice import choose
from verl_otel.local.errors import LocalError
from verl_otel.local.store.database import UnknownRunError, open_database
from verl_otel.local.store.folder import OTHER, Folder
from verl_otel.local.store.run_writer import stored_summary
from verl_otel.local.store.summary import RUNNING, Summary


class Runs:
    """Thread-safe."""

    def __init__(self, folder: Folder) -> None:
        """Reads the summaries that are there."""
        self._folder = folder
        self._lock = threading.Lock()
        self._known = {found.id: found for path in folder.runs.glob("*.duckdb") if (found := _read(path)) is not None}

    def list(self) -> "list[dict[str, Any]]":
        """Each run as the API has it, newest first."""
        with self._lock:
            now = time.time()
            return sorted((self._shown(one, now) for one in self._known.values()), key=lambda run: -run["started"])

    def get(self, run: str) -> dict[str, Any]:
        """One as the API has it. Raises `UnknownRunError`."""
        with self._lock:
            if run not in self._known:
                raise UnknownRunError(f"there is no run {run!r}: `verl-otel ls` shows those that there are")
            return self._shown(self._known[run], time.time())

    def _shown(self, summary: Summary, now: float) -> dict[str, Any]:
        return {**summary.shown(now), "bytes": size(self._folder.database(summary.id))}

    def find(self, text: str) -> dict[str, Any]:
        """The run with this id, or beginning of an id or of an experiment's name. Raises `LocalError`."""
        return dict(choose(self.list(), text))

    def rev(self, run: str) -> int:
        """Grows with the run's data; 0 of one that there isn't."""
        with self._lock:
            return self._known[run].rev if run in self._known else 0

    def note(self, summary: Summary) -> None:
        """There is more of a run."""
        if summary.id != OTHER:
            rewards = {key: {**points} for key, points in summary.rewards.items()}
            copied = replace(summary, rewards=rewards, bytes=size(self._folder.database(summary.id)))
            with self._lock:
                self._known[summary.id] = copied

    def save(self, run: str) -> None:
        """Write its summary beside its database, for whoever lists runs next. Raises `OSError`."""
        with self._lock:
            text = self._known[run].to_json() if run in self._known else None
        if text is not None:
            _write(self._folder.summary(run), text)

    def forget(self, run: str) -> None:
        """It was removed."""
        with self._lock:
            self._known.pop(run, None)
        self._folder.summary(run).unlink(missing_ok=True)


def size(database: Path) -> int:
    """Bytes of a database and of what is yet to be merged into it."""
    found = 0
    for one in (database, Path(f"{database}.wal")):
        with contextlib.suppress(OSError):
            found += one.stat().st_size
    return found


def _read(database: Path) -> Summary | None:
    """From beside the database; if that may be old, from it: a crash may have come before the last was written."""
    path = database.with_suffix(".json")
    beside = None
    with contextlib.suppress(OSError, ValueError):
        beside = Summary.from_json(path.read_text())
        if beside.status != RUNNING or path.stat().st_mtime_ns >= _changed(database):
            return beside
    with contextlib.suppress(LocalError, duckdb.Error, OSError):
        with open_database(database, "", read_only=True) as connection:
            inside = stored_summary(connection)
        if inside is not None:
            _write(path, inside.to_json())
            return inside
    return beside


def _changed(database: Path) -> int:
    """When anything was last written to it."""
    return max(one.stat().st_mtime_ns for one in (database, Path(f"{database}.wal")) if one.exists())


def _write(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)
