"""A run's database for a notebook: the file itself, or a copy from the backend that is writing it."""

import tempfile
from pathlib import Path

import duckdb

from verl_otel.local import backend
from verl_otel.local.choice import choose
from verl_otel.local.client import Client
from verl_otel.local.errors import LocalError
from verl_otel.local.store.database import open_database
from verl_otel.local.store.folder import Folder, default_folder
from verl_otel.local.store.runs import Runs


def open_run(run: str | Path, folder: str | Path | None = None) -> duckdb.DuckDBPyConnection:
    """See `verl_otel.local.open`."""
    if (file := Path(run)).suffix == ".duckdb" and file.exists():
        return open_database(file, "", read_only=True)
    place = Folder(Path(folder) if folder is not None else default_folder())
    served = backend.serving(place)
    if served is None:
        found = str(Runs(place).find(str(run))["id"])
        return open_database(place.database(found), found, read_only=True)
    with backend.client_of(place, served) as client:
        found = str(choose(client.runs(), str(run))["id"])
        try:
            return open_database(place.database(found), found, read_only=True)
        except LocalError:  # it is being written
            return _copied(client, found)


def _copied(client: Client, run: str) -> duckdb.DuckDBPyConnection:
    with tempfile.TemporaryDirectory(prefix="verl-otel-") as made:
        copy = Path(made) / "run.duckdb"
        client.database(run, copy)
        # The file goes with the folder; who has it open keeps it until the connection is closed.
        return open_database(copy, run, read_only=True)
