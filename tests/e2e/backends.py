"""The embedded backend as end-to-end runs send to it: one for each run's folder, started as a user's is."""

import contextlib

from captured import Capture, captured

from verl_otel import local
from verl_otel.local import backend
from verl_otel.local.store.folder import Folder
from verl_otel.local.store.runs import Runs


def place(folder):
    """Where the backend of a run that writes to `folder` keeps its data."""
    return Folder(folder / "local")


@contextlib.contextmanager
def serving(folder, port=None):
    """One at work; its `url` is the endpoint for OTLP over HTTP. At its end all that was accepted is stored."""
    served = backend.start(place(folder), port)
    try:
        yield served
    finally:
        backend.stop(place(folder))


def arrived(folder):
    """All that arrived until now, of every run in it."""
    found = Capture()
    for database in _databases(folder):
        with database:
            one = captured(database)
        found.spans += one.spans
        found.points += one.points
        found.events += one.events
    return found


def text_of(folder):
    """Every cell of every table as text: what must not be in it is in none."""
    cells = []
    for database in _databases(folder):
        with database:
            for (table,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                cells.append(str(database.execute(f"SELECT * FROM {table}").fetchall()))
    return "\n".join(cells)


def _databases(folder):
    for run in Runs(place(folder)).list():
        yield local.open(run["id"], place(folder).path)
