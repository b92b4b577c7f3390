"""Runs that are written while they are read: the one object that receivers, API and command share."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import duckdb
from typing_extensions import Self

from verl_otel.local.errors import LocalError
from verl_otel.local.journal import Journal, Limits
from verl_otel.local.store.database import Databases
from verl_otel.local.store.folder import Folder
from verl_otel.local.store.runs import Runs
from verl_otel.local.store.summary import RUNNING
from verl_otel.local.store.writer import Writer

logger = logging.getLogger(__name__)

Changed = Callable[[Mapping[str, int]], None]


class Store:
    """Of a folder that this process serves (`Folder.served`). Use as a context manager. Thread-safe."""

    def __init__(self, folder: Folder, limits: Limits | None = None) -> None:
        """Raises `LocalError` if the folder can't be used."""
        folder.make()
        self.folder = folder
        self.runs = Runs(folder)
        self._databases = Databases(folder)
        try:
            self.journal = Journal(folder.journal, limits)
        except OSError as error:
            raise LocalError(f"{folder.journal} can't be used: {error.strerror}") from error
        self._told: list[Changed] = []
        self._lock = threading.Lock()
        self._writer = Writer(folder, self.journal, self._databases, self.runs, self._tell)

    def __enter__(self) -> Self:
        self._writer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._writer.stop()
        self.journal.close()
        self._databases.close()

    def accept(self, signal: str, body: bytes) -> None:
        """Keep a request: traces, metrics or logs, as protobuf that can be parsed. Raises `JournalFullError`."""
        self.journal.append(signal, body)

    def reading(self, run: str) -> contextlib.AbstractContextManager[duckdb.DuckDBPyConnection]:
        """A cursor on a run's database. One for each thread; keep it no longer than a query takes.

        Raises `UnknownRunError`, and `LocalError` if another program has the file.
        """
        return self._databases.reading(run)

    def subscribe(self, changed: Changed) -> Callable[[], None]:
        """Have `changed` told the new revisions of runs, from the writer's thread; returns what ends that."""
        with self._lock:
            self._told.append(changed)

        def end() -> None:
            with self._lock:
                self._told.remove(changed)

        return end

    def remove(self, run: str) -> None:
        """Remove a run and all its data. Raises `UnknownRunError`, and `LocalError` while it runs."""
        if self.runs.get(run)["status"] == RUNNING:
            raise LocalError(f"run {run} is running: it can be removed once it has ended")
        with self._databases.closed(run):
            path = self.folder.database(run)
            for one in (path, path.with_name(f"{path.name}.wal")):
                one.unlink(missing_ok=True)
            self.runs.forget(run)

    def copy(self, run: str, path: Path) -> None:
        """Write a run's database, as it is now, to a new file. Raises `UnknownRunError`, `LocalError`."""
        with self.reading(run) as connection:
            name = connection.execute("SELECT current_database()").fetchall()[0][0]
            # Two copies at once share the database's process, so each has a name of its own.
            copied = f"copied_{uuid.uuid4().hex}"
            connection.execute(f"ATTACH '{_quoted(path)}' AS {copied} (READ_WRITE)")
            try:
                connection.execute(f'COPY FROM DATABASE "{name}" TO {copied}')
            finally:
                connection.execute(f"DETACH {copied}")

    def settle(self, seconds: float) -> bool:
        """Wait until all that was accepted is in the databases; False if it isn't in time."""
        deadline = time.monotonic() + seconds
        while self._writer.is_behind and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self._writer.is_behind

    def _tell(self, revs: Mapping[str, int]) -> None:
        with self._lock:
            told = list(self._told)
        for one in told:
            _call(one, revs)


def _call(changed: Changed, revs: Mapping[str, int]) -> None:
    """What goes wrong there must not keep data from being stored."""
    try:
        changed(revs)
    except Exception:
        logger.exception("somebody couldn't be told of new data")


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
