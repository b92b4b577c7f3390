"""Opening a run's database, and sharing those that are open between the writer and the readers."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

import duckdb

from verl_otel.local.errors import LocalError
from verl_otel.local.store import migrations
from verl_otel.local.store.folder import Folder

MOST_OPEN: Final = 6
_CONFIG: Final = {
    "threads": "2",
    "memory_limit": "256MB",
    "checkpoint_threshold": "64MB",
    "autoload_known_extensions": "false",
}


class UnknownRunError(LocalError):
    """There is no run of that name."""


def open_database(path: Path, run: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Of the run, made or brought to the newest schema unless it is only read.

    Raises `LocalError` if another program has it open, or it is a newer version's, or no database.
    """
    if not read_only and path.exists() and not path.stat().st_size:
        path.unlink()  # a crash left it, before anything was written
    try:
        connection = duckdb.connect(str(path), read_only=read_only, config=dict(_CONFIG))
    except duckdb.Error as error:
        raise LocalError(_why_not(path, error)) from error
    try:
        connection.execute("SET GLOBAL pandas_analyze_sample = 0")  # arrays of objects are texts
        if read_only:
            migrations.version(connection)
        else:
            migrations.prepare(connection, run)
    except (duckdb.Error, LocalError) as error:
        connection.close()
        raise LocalError(f"{path} can't be opened: {error}") from error
    return connection


def _why_not(path: Path, error: duckdb.Error) -> str:
    first = str(error).splitlines()[0]
    if "lock" in first:
        return f"{path} is open in another program ({first.partition('PID ')[2] or 'unknown'}): close it there"
    return f"{path} can't be opened: {first}"


@dataclass
class _Shared:
    """An open database. `users`: threads of the cursors that are in use."""

    connection: duckdb.DuckDBPyConnection
    read_only: bool
    users: list[int] = field(default_factory=list)
    used: float = field(default_factory=monotonic)


class Databases:
    """Those that are open, at most a few. Thread-safe.

    One process opens a file in one mode at a time: a run that nobody writes is opened to be read, so that others may
    read it, too; once it is to be written, its readers are waited for.
    """

    def __init__(self, folder: Folder, most: int = MOST_OPEN) -> None:
        self._folder, self._most = folder, most
        self._open: dict[str, _Shared] = {}
        self._busy: set[str] = set()  # to be written or removed next: no new reader
        self._changed = threading.Condition()
        self.on_close: Callable[[str], None] = lambda run: None
        """Told when a run's database is closed: what was remembered of it is void."""

    @contextlib.contextmanager
    def reading(self, run: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of its own for reading. Raises `LocalError`, `UnknownRunError`."""
        with self._sharing(run, writing=False) as connection, connection.cursor() as cursor:
            yield cursor

    @contextlib.contextmanager
    def writing(self, run: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of its own for writing; makes the database if there is none. Raises `LocalError`."""
        with self._sharing(run, writing=True) as connection, connection.cursor() as cursor:
            yield cursor

    @contextlib.contextmanager
    def closed(self, run: str) -> Iterator[None]:
        """The database is closed, and stays so until this ends."""
        with self._changed:
            self._claim(run)
            try:
                self._close(run)
                yield
            finally:
                self._busy.discard(run)
                self._changed.notify_all()

    def rest(self, run: str) -> None:
        """Close it if nobody uses it just now."""
        with self._changed:
            if run in self._open and not self._open[run].users and run not in self._busy:
                self._close(run)

    def close(self) -> None:
        """Close all, once they are out of use."""
        for run in list(self._open):
            with self.closed(run):
                pass

    @contextlib.contextmanager
    def _sharing(self, run: str, *, writing: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._changed:
            shared = self._writable(run) if writing else self._readable(run)
            shared.users.append(threading.get_ident())
            shared.used = monotonic()
        try:
            yield shared.connection
        finally:
            with self._changed:
                shared.users.remove(threading.get_ident())
                self._changed.notify_all()

    def _readable(self, run: str) -> _Shared:
        # A thread that reads it already is let in: else it would wait for itself.
        while run in self._busy and not (run in self._open and threading.get_ident() in self._open[run].users):
            self._changed.wait()
        if run not in self._open:
            path = self._folder.database(run)
            if not path.exists():
                raise UnknownRunError(f"there is no run {run!r}: `verl-otel ls` shows those that there are")
            self._keep(run, read_only=True)
        return self._open[run]

    def _writable(self, run: str) -> _Shared:
        shared = self._open.get(run)
        if shared is None or shared.read_only:
            self._claim(run)
            try:
                self._close(run)
                self._keep(run, read_only=False)
            finally:
                self._busy.discard(run)
                self._changed.notify_all()
        return self._open[run]

    def _claim(self, run: str) -> None:
        """Wait until nobody uses it and nobody else wants to be alone with it."""
        while run in self._busy:
            self._changed.wait()
        self._busy.add(run)
        while run in self._open and self._open[run].users:
            self._changed.wait()

    def _keep(self, run: str, *, read_only: bool) -> None:
        idle = sorted((one.used, name) for name, one in self._open.items() if not one.users and name not in self._busy)
        for _, name in idle[: max(0, len(self._open) + 1 - self._most)]:
            self._close(name)
        self._open[run] = _Shared(open_database(self._folder.database(run), run, read_only=read_only), read_only)

    def _close(self, run: str) -> None:
        if (shared := self._open.pop(run, None)) is not None:
            shared.connection.close()
            if not shared.read_only:
                self.on_close(run)
