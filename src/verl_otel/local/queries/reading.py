"""How a question is put: rows as dicts, a path for an attribute's name, times and numbers as the API has them."""

import json
import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import duckdb

Cursor: TypeAlias = duckdb.DuckDBPyConnection
Row: TypeAlias = dict[str, Any]

SECOND: Final = 1_000_000_000
"""In ns."""
MILLISECOND: Final = 1_000_000


class NotThereError(LookupError):
    """There is no such thing in this run; its text is one line for people."""


class ParameterError(ValueError):
    """A parameter that makes no sense; its text is one line for people."""


def rows(cursor: Cursor, sql: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
    """What the SQL finds; `parameters`: exactly those that it names as `$name`."""
    found = cursor.execute(sql, parameters or {})
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, values, strict=True)) for values in found.fetchall()]


def row(cursor: Cursor, sql: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
    """The first of these."""
    return next(iter(rows(cursor, sql, parameters)), None)


def path(name: str) -> str:
    """Where an attribute is in a JSON object: `attributes ->> $path`. Its name has dots, so it is quoted."""
    return '$."' + name.replace('"', '\\"') + '"'


def decoded(text: str | None) -> Any:
    """A JSON column's value; an empty object where there is none."""
    return json.loads(text) if text else {}


def milliseconds(time: float | None) -> float | None:
    """ns as the API has them."""
    return None if time is None else time / MILLISECOND


def seconds(duration: float | None) -> float | None:
    """ns as seconds."""
    return None if duration is None else duration / SECOND


def nanoseconds(time: float) -> int:
    """ms as the database has them."""
    return int(time * MILLISECOND)


def finite(value: float | None) -> float | None:
    """None for what JSON has no number for."""
    return value if value is not None and math.isfinite(value) else None


def integer(value: Any) -> int | None:
    """An attribute's text as a number; None if it is none."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def number(value: Any) -> float | None:
    """The same, with a fraction."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def columns(cursor: Cursor, question: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The rows as NumPy's arrays by column: for millions of them, none of which has a NULL."""
    return dict(cursor.execute(question, dict(parameters)).fetchnumpy())
