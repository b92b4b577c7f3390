"""From each version of the schema to the next."""

import contextlib
from pathlib import Path
from typing import Final

import duckdb

from verl_otel.local.errors import LocalError

VERSION: Final = 1
"""Of schema.sql."""

MIGRATIONS: Final[dict[int, str]] = {}
"""SQL that makes the version after the key of that of the key; VERSION is one more than the last key."""


def prepare(connection: duckdb.DuckDBPyConnection, run: str) -> None:
    """Make an empty database the newest version's, or an older one's newer. Raises `LocalError` for others."""
    found = version(connection)
    if found == VERSION:
        return
    connection.begin()
    try:
        if found is None:
            connection.execute((Path(__file__).parent / "schema.sql").read_text())
            connection.execute("INSERT INTO meta VALUES ('run_id', ?), ('created', epoch_ns(now())::VARCHAR)", [run])
        else:
            for older in range(found, VERSION):
                if older not in MIGRATIONS:
                    raise LocalError(f"its schema {older} is of no release of verl-otel")
                connection.execute(MIGRATIONS[older])
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('schema_version', ?)", [str(VERSION)])
        connection.commit()
    except BaseException:
        with contextlib.suppress(duckdb.Error):  # a commit that failed has ended the transaction
            connection.rollback()
        raise


def version(connection: duckdb.DuckDBPyConnection) -> int | None:
    """Of a database; None of an empty one. Raises `LocalError` if it is newer than this program, or no run's."""
    tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    if not tables:
        return None
    if ("meta",) not in tables:
        raise LocalError("it is a database of something else: move it away")
    # All of its rows: a result that is left open keeps whoever gets this connection from asking it by `sql`.
    rows = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchall()
    found = int(rows[0][0]) if rows else 0
    if found > VERSION:
        raise LocalError(
            f"it was written by a newer verl-otel (schema {found}, this one knows {VERSION}): upgrade verl-otel"
        )
    return found
