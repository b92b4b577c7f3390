"""Rows into tables, a column at a time: DuckDB reads NumPy's arrays where they are, ten times as fast as parameters.

What NumPy can't leave out stands as a number that no row has (`_ABSENT`) or as a text, and is made NULL on its way in.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb
import numpy as np

_ABSENT: Final = -(1 << 63)

_INT, _TEXT, _BOOL, _FLOAT, _TEXT_OF, _FEW = "int", "text", "bool", "float", "text of ", "few of "
"""Kinds of columns. `_FLOAT` is never NULL: NaN is, on its way through NumPy. `_TEXT_OF`: a type, written as text.

`_FEW`: the same of texts, never NULL, that most rows share: each is read once.
"""

_TABLES: Final[dict[str, dict[str, str]]] = {
    "processes": {
        "process": _INT,
        "instance": _TEXT,
        "host": _TEXT,
        "pid": _INT,
        "attempt": _INT,
        "role": _TEXT,
        "rank": _INT,
        "replica": _INT,
        "attributes": _TEXT,
        "first_seen": _INT,
        "last_seen": _INT,
    },
    "series": {
        "series": _INT,
        "metric": _TEXT,
        "unit": _TEXT,
        "kind": _TEXT,
        "monotonic": _BOOL,
        "delta": _BOOL,
        "scope": _TEXT,
        "process": _INT,
        "key": _TEXT,
        "attributes": _TEXT,
    },
    "points": {"series": _INT, "time": _INT, "value": _FLOAT},
    "histograms": {
        "series": _INT,
        "time": _INT,
        "start": _INT,
        "count": _TEXT_OF + "UBIGINT",
        "sum": _TEXT_OF + "DOUBLE",
        "min": _TEXT_OF + "DOUBLE",
        "max": _TEXT_OF + "DOUBLE",
        "bounds": _FEW + "DOUBLE[]",
        "counts": _TEXT_OF + "UBIGINT[]",
    },
    "scalars": {"step": _INT, "key": _TEXT, "value": _FLOAT, "time": _INT, "attempt": _INT, "process": _INT},
    "spans": {
        "trace": _TEXT,
        "span": _TEXT,
        "parent": _TEXT,
        "name": _TEXT,
        "kind": _INT,
        "start": _INT,
        "end": _INT,
        "error": _BOOL,
        "message": _TEXT,
        "scope": _TEXT,
        "process": _INT,
        "step": _INT,
        "phase": _TEXT,
        "role": _TEXT,
        "rank": _INT,
        "replica": _INT,
        "lane": _TEXT,
        "validation": _BOOL,
        "attributes": _TEXT,
        "links": _TEXT,
        "events": _TEXT,
    },
    "trajectories": {
        "trace": _TEXT,
        "span": _TEXT,
        "name": _TEXT,
        "start": _INT,
        "end": _INT,
        "process": _INT,
        "step": _INT,
        "validation": _BOOL,
        "uid": _TEXT,
        "session": _INT,
        "outcome": _TEXT,
        "reward": _TEXT_OF + "DOUBLE",
        "prompt_tokens": _INT,
        "response_tokens": _INT,
        "generated_tokens": _INT,
        "turns": _INT,
        "model_calls": _INT,
        "tool_calls": _INT,
        "stop_reason": _TEXT,
        "weights_oldest": _INT,
        "weights_newest": _INT,
        "parts": _TEXT,
    },
    "events": {
        "time": _INT,
        "name": _TEXT,
        "severity": _INT,
        "body": _TEXT,
        "trace": _TEXT,
        "span": _TEXT,
        "process": _INT,
        "attributes": _TEXT,
    },
}


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Rows in the order of the columns above, into the table. Raises `duckdb.Error`."""
    if rows:
        _run(connection, table, rows, _statement(table))


def insert_columns(connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, Any]) -> None:
    """NumPy's arrays of numbers by column. Raises `duckdb.Error`."""
    connection.register("incoming", dict(columns))
    try:
        connection.execute(_statement(table))
    finally:
        connection.unregister("incoming")


def update_processes(connection: duckdb.DuckDBPyConnection, rows: Sequence[tuple[Any, ...]]) -> None:
    """What may change of processes that are there. Raises `duckdb.Error`."""
    changing = ("role", "rank", "replica", "first_seen", "last_seen")
    kinds = _TABLES["processes"]
    values = ", ".join(f"{name} = {_expression(name, kinds[name], 'incoming.')}" for name in changing)
    statement = f"UPDATE processes SET {values} FROM incoming WHERE processes.process = incoming.process"  # noqa: S608
    _run(connection, "processes", rows, statement)


def _run(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]], statement: str) -> None:
    columns = zip(_TABLES[table].items(), zip(*rows, strict=True), strict=True)
    connection.register("incoming", {name: _array(kind, values) for (name, kind), values in columns})
    try:
        connection.execute(statement)
    finally:
        connection.unregister("incoming")


def _array(kind: str, values: tuple[Any, ...]) -> Any:
    if kind == _FLOAT:
        return np.array(values, dtype=np.float64)
    if kind == _INT:
        try:
            return np.array(values, dtype=np.int64)
        except TypeError:  # some are None
            return np.array([_ABSENT if one is None else one for one in values], dtype=np.int64)
    if kind == _BOOL:
        return np.array([-1 if one is None else one for one in values], dtype=np.int8)
    if kind.startswith(_TEXT_OF):
        values = tuple(None if one is None else str(one) for one in values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def _statement(table: str) -> str:
    columns = _TABLES[table]
    chosen = ", ".join(_expression(name, kind) for name, kind in columns.items())
    names = ", ".join(f'"{name}"' for name in columns)
    few = "".join(_once(name, kind.removeprefix(_FEW)) for name, kind in columns.items() if kind.startswith(_FEW))
    return f"INSERT INTO {table} ({names}) SELECT {chosen} FROM incoming{few}"  # noqa: S608 - our own names


def _once(name: str, kind: str) -> str:
    """Joins the values of a column's different texts."""
    texts = f'SELECT DISTINCT "{name}" FROM incoming'  # noqa: S608 - our own names
    return f' JOIN (SELECT "{name}", "{name}"::{kind} AS "{name} read" FROM ({texts})) USING ("{name}")'  # noqa: S608


def _expression(name: str, kind: str, source: str = "") -> str:
    column = f'{source}"{name}"'
    if kind == _INT:
        return f"nullif({column}, {_ABSENT})"
    if kind == _BOOL:
        return f"nullif({column}, -1)::BOOLEAN"
    if kind == _FLOAT:
        return f"coalesce({column}, 'nan'::DOUBLE)"
    if kind.startswith(_FEW):
        return f'"{name} read"'
    return column if kind == _TEXT else f"{column}::{kind.removeprefix(_TEXT_OF)}"
