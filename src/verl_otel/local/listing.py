"""The runs of a folder, asked of who serves it, else read from it."""

import contextlib
import time
from typing import Any

from verl_otel.local import backend
from verl_otel.local.store.folder import Folder
from verl_otel.local.store.summary import Summary


def runs(folder: Folder) -> list[dict[str, Any]]:
    """As the API has them, newest first. Raises `LocalError`."""
    if (found := backend.serving(folder)) is not None:
        with backend.client_of(folder, found) as client:
            return client.runs()
    return _read(folder)


def remove(folder: Folder, run: str) -> None:
    """Remove one for good. Raises `LocalError` while it runs."""
    if (found := backend.serving(folder)) is not None:
        with backend.client_of(folder, found) as client:
            client.remove(run)
        return
    # Held meanwhile: nobody begins to serve what is being removed.
    with folder.served():
        database = folder.database(run)
        for path in (database, database.with_name(f"{database.name}.wal"), folder.summary(run)):
            path.unlink(missing_ok=True)


def _read(folder: Folder) -> list[dict[str, Any]]:
    """From the summaries beside the databases: nothing is opened, and no library is needed."""
    now = time.time()
    found = []
    for database in folder.runs.glob("*.duckdb"):
        with contextlib.suppress(OSError, ValueError):
            found.append(Summary.from_json(database.with_suffix(".json").read_text()).shown(now))
    return sorted(found, key=lambda run: -run["started"])
