"""One run's data into its database: a batch is a transaction, and says how far it has come in the journal."""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import duckdb
import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from verl_otel import semconv
from verl_otel.local.journal import Position
from verl_otel.local.store import tables
from verl_otel.local.store.catalog import Catalog, Process
from verl_otel.local.store.rows import Rows
from verl_otel.local.store.shapes import Shapes
from verl_otel.local.store.snapshots import Snapshots
from verl_otel.local.store.summary import DEMO, Summary


class Part(NamedTuple):
    """What a process of the run told in a record that ends at `end`: ResourceSpans, -Metrics or -Logs.

    Or the whole request of metrics in `body`, where that has one process alone, still to be parsed.
    """

    signal: str
    resource: bytes
    told: Any
    end: Position
    body: bytes = b""

    def parsed(self) -> Any:
        """What is told."""
        return ExportMetricsServiceRequest.FromString(self.body).resource_metrics[0] if self.body else self.told


class RunWriter:
    """What is known of a run while its database is open to be written. After an error it is void."""

    def __init__(self, run: str, connection: duckdb.DuckDBPyConnection) -> None:
        """Reads what the database has. Raises `duckdb.Error`."""
        self._catalog = Catalog.load(connection)
        self._shapes = Shapes()
        self._snapshots = Snapshots.load(connection)
        self._read: dict[int, int] = dict(connection.execute('SELECT segment, "offset" FROM journal_read').fetchall())
        self.summary = stored_summary(connection) or Summary(run)

    def write(self, connection: duckdb.DuckDBPyConnection, parts: Sequence[Part], until: Position, oldest: int) -> bool:
        """Take the parts that aren't there yet; False if there was none.

        `until`: end of the batch that they are of. `oldest`: segment of the journal that is still there. Raises
        `duckdb.Error`, and nothing of it is written then.
        """
        new = [one for one in parts if one.end.offset > self._read.get(one.end.segment, 0)]
        if not new:
            return False
        rows, processes = self._rows(new)
        connection.begin()
        try:
            self._insert(connection, rows)
            self._summarise(rows, processes)
            self._note(connection, until, {one.end.segment: one.end.offset for one in parts}, oldest)
            connection.commit()
        except BaseException:
            with contextlib.suppress(duckdb.Error):  # a commit that failed has ended the transaction
                connection.rollback()
            raise
        return True

    def _rows(self, parts: Sequence[Part]) -> tuple[Rows, dict[int, Process]]:
        rows, catalog = Rows(), self._catalog
        processes = {}
        for part in parts:
            resource, body = part.resource, part.body
            process = catalog.known(resource) if body else None
            if process is None or not rows.add_known(resource, body, process, self._shapes):
                told = part.parsed()
                process = catalog.process(resource, told.resource.attributes)
                if body:
                    rows.add_unknown(resource, body, told, process, catalog, self._shapes)
                else:
                    rows.add(part.signal, told, process, catalog)
            processes[process.number] = process
        return rows, processes

    def _insert(self, connection: duckdb.DuckDBPyConnection, rows: Rows) -> None:
        named = [one for one in rows.numbers if one[0] in self._catalog.named]
        named += [one for chunk in rows.chunks for one in chunk.named]
        found = self._snapshots.match(named, self._catalog, connection)
        attempts = {one.number: one.attempt for one in self._catalog.processes.values()}
        self._catalog.write(connection)
        tables.insert(connection, "points", rows.numbers)
        if rows.chunks:
            series, times, values, _ = zip(*rows.chunks, strict=True)
            columns = {"series": series, "time": times, "value": values}
            tables.insert_columns(
                connection, "points", {name: np.concatenate(arrays) for name, arrays in columns.items()}
            )
        tables.insert(connection, "histograms", rows.histograms)
        tables.insert(connection, "spans", rows.spans)
        tables.insert(connection, "trajectories", rows.trajectories)
        tables.insert(connection, "events", rows.events)
        scalars = [(*one[:4], attempts[one[4]], one[4]) for one in found]
        tables.insert(connection, "scalars", scalars)
        for step, key, value, *_ in found:
            self.summary.logged(step, key, value)

    def _summarise(self, rows: Rows, processes: dict[int, Process]) -> None:
        summary = self.summary
        for one in processes.values():
            summary.saw(one.first, one.last)
            summary.attempted(one.attempt)
            summary.demo = summary.demo or one.attributes.get(DEMO) is True
            summary.host = summary.host or one.host
        for metric, process, told in self._catalog.told:
            if metric == semconv.RUN_INFO.name:
                summary.described(told, process.host)
            elif summary.ended is None:
                summary.end(process.attempt, told.get(semconv.RUN_OUTCOME), process.last)
        self._catalog.told.clear()
        for event in rows.run_events:
            summary.told(event)
        summary.rev += 1

    def _note(self, connection: duckdb.DuckDBPyConnection, until: Position, ends: dict[int, int], oldest: int) -> None:
        """What was read, and what is known of the run, in the same transaction."""
        self._read = {segment: offset for segment, offset in self._read.items() if segment >= oldest}
        self._read |= ends | {until.segment: until.offset}
        connection.execute("DELETE FROM journal_read WHERE segment < ?", [oldest])
        connection.executemany(
            "INSERT OR REPLACE INTO journal_read VALUES (?, ?)", [[*one] for one in self._read.items()]
        )
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('summary', ?)", [self.summary.to_json()])


def stored_summary(connection: duckdb.DuckDBPyConnection) -> Summary | None:
    """The summary that a database holds; None if there is none, or none that can be read. Raises `duckdb.Error`."""
    row = connection.execute("SELECT value FROM meta WHERE key = 'summary'").fetchone()
    try:
        return Summary.from_json(row[0]) if row else None
    except ValueError:
        return None
