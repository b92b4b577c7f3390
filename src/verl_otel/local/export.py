"""A run in files that other programs read: Parquet by table, OTLP as JSON, Perfetto's timeline."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from verl_otel.local import otlp_json, perfetto, profiles
from verl_otel.local.errors import LocalError
from verl_otel.local.selection import read
from verl_otel.version import __version__

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FORMATS: Final = ("parquet", "otlp-json", "perfetto")
TABLES: Final = (
    "meta",
    "processes",
    "series",
    "points",
    "histograms",
    "scalars",
    "spans",
    "trajectories",
    "events",
)
"""Those that hold data, not how far the backend is."""
_SLICES: Final = 'SELECT process, name, lane, role, rank, start, "end", span, parent, error, attributes FROM spans'
_PROCESSES: Final = """
    SELECT process, host, pid, role, rank, replica FROM processes
    ORDER BY rank IS NOT NULL, replica IS NOT NULL, role, rank, replica, process
"""


def parquet(database: "DuckDBPyConnection", to: Path) -> int:
    """A file for each table, into a folder; how many files. Raises `OSError`."""
    to.mkdir(parents=True, exist_ok=True)
    for table in TABLES:
        path = str(to / f"{table}.parquet").replace("'", "''")
        database.execute(f"COPY {table} TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
    return len(TABLES)


def otlp(database: "DuckDBPyConnection", to: Path) -> int:
    """OTLP requests in OTLP's JSON, one a line, as the collector's file exporter writes them; how many.

    Raises `OSError`.
    """
    number = 0
    with perfetto.opened(to, "w") as file:
        for request in otlp_json.requests(database):
            file.write(json.dumps(request, separators=(",", ":")) + "\n")
            number += 1
    return number


def timeline(
    database: "DuckDBPyConnection",
    to: Path,
    profiler: Sequence[Path] = (),
    say: Callable[[str], None] = lambda _: None,
) -> int:
    """Perfetto's file of what the connection sees, a run or a step; how many events.

    `profiler`: traces of torch's profiler to be shown below, on the same clock; `say` is told of those that can't be.
    Raises `LocalError`, `OSError`.
    """
    slices = list(_slices(database))
    if not slices:
        raise LocalError("there are no spans to show")
    zero = min(one.start for one in slices)
    run = database.execute("SELECT value FROM meta WHERE key = 'run_id'").fetchone()
    about = {"made_by": f"verl-otel {__version__}", "run": run[0] if run else None, "zero_ns": str(zero)}
    known = {one.process for one in slices}
    shown = [one for one in processes(database) if one.number in known]

    def events() -> Iterator[dict[str, Any]]:
        yield from perfetto.events(shown, slices, zero)
        yield from profiles.merged([profiles.described(path) for path in profiler], max(known) + 1, zero, say)

    with perfetto.opened(to, "w") as file:
        return perfetto.write(file, events(), about)


def processes(database: "DuckDBPyConnection") -> list[perfetto.Process]:
    """Of a run, by what they are: trainer and others, replicas, ranks."""
    return [
        perfetto.Process(process, _title(host, pid, role, replica if rank is None else rank), order)
        for order, (process, host, pid, role, rank, replica) in enumerate(database.execute(_PROCESSES).fetchall())
    ]


def _title(host: str | None, pid: int | None, role: str | None, number: int | None) -> str:
    what = " ".join(str(one) for one in (role or "process", number) if one is not None)
    return ", ".join(str(one) for one in (what, host, pid) if one is not None)


def _slices(database: "DuckDBPyConnection") -> Iterator[perfetto.Slice]:
    for rows in read(database, _SLICES):
        for process, name, lane, role, rank, start, end, span, parent, error, kept in rows:
            row = perfetto.lane_of(name, lane, role, rank)
            shown = perfetto.shown_name(name)
            yield perfetto.Slice(process, row, shown, start, end, span, parent, error, json.loads(kept))
