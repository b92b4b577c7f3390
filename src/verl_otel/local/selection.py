"""Narrowing a run to what belongs to a step, for those who read or write it out."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from verl_otel import semconv

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROWS: Final = 2000
# Temporary tables go before those of the file, from the next statement on.
_OF_STEP: Final = (
    "CREATE TEMP TABLE scalars AS SELECT * FROM scalars WHERE step = $step",
    "CREATE TEMP TABLE trajectories AS SELECT * FROM trajectories WHERE step = $step",
    # What is below a step in its trace, whether it has the step's number itself or not.
    "CREATE TEMP TABLE spans AS SELECT * FROM spans WHERE trace IN (SELECT trace FROM spans WHERE step = $step)",
)
_DURING: Final = (
    'CREATE TEMP TABLE step AS SELECT min(start) AS begin, max("end") AS last FROM spans '
    "WHERE name = $root AND step = $step"
)
_MEASURED: Final = (
    "CREATE TEMP TABLE points AS SELECT points.* FROM points, step WHERE time BETWEEN begin AND last",
    "CREATE TEMP TABLE histograms AS SELECT histograms.* FROM histograms, step WHERE time BETWEEN begin AND last",
    "CREATE TEMP TABLE events AS SELECT events.* FROM events, step WHERE time BETWEEN begin AND last",
)


def narrow(database: "DuckDBPyConnection", step: int) -> None:
    """From now on this connection sees of the run only what is of the step, or was measured during it.

    Tables that know of no step stay whole. The file is not changed.
    """
    for statement in _OF_STEP:
        database.execute(statement, {"step": step})
    database.execute(_DURING, {"step": step, "root": semconv.SPAN_STEP})
    for statement in _MEASURED:
        database.execute(statement)


def read(database: "DuckDBPyConnection", query: str, size: int = _ROWS) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a query, so many at a time; ask nothing else of the connection meanwhile."""
    asked = database.execute(query)
    while rows := asked.fetchmany(size):
        yield rows
