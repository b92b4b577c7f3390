"""The embedded backend: telemetry received, stored and shown on this machine, without a collector."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def open(  # noqa: A001 - as gzip and shelve name theirs
    run: str | Path, folder: str | Path | None = None
) -> "duckdb.DuckDBPyConnection":
    """A run's database, to be read with DuckDB: its tables are described in docs/local.md.

    `run`: its id, the beginning of its id or of its experiment's name, or a .duckdb file. `folder`: of the backend, if
    it isn't the usual one. Of a run that is being written it is a copy of now. Raises
    `verl_otel.local.errors.LocalError`.
    """
    from verl_otel.local.store.opening import open_run

    return open_run(run, folder)
