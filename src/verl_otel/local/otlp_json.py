"""A run's rows as OTLP requests in OTLP's JSON: ids in hex, 64-bit integers as text, enumerations as numbers.

What a database doesn't keep is not there: a sum's own start, exemplars.
"""

import json
import math
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from verl_otel.local.selection import read

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_WHO: Final = "SELECT process, attributes FROM processes"
_SPANS: Final = """
    SELECT process, scope, trace, span, parent, name, kind, start, "end", error, message, attributes, links, events
    FROM spans ORDER BY process, scope, start
"""
_SERIES: Final = "SELECT series, process, scope, metric, unit, kind, monotonic, delta, attributes FROM series"
_POINTS: Final = "SELECT series, time, value FROM points ORDER BY series, time"
_HISTOGRAMS: Final = """
    SELECT series, time, start, count, sum, min, max, bounds, counts FROM histograms ORDER BY series, time
"""
_RECORDS: Final = """
    SELECT process, '' AS scope, time, name, severity, body, trace, span, attributes FROM events ORDER BY process, time
"""
_ITEMS: Final = 1000
_DELTA: Final = 1
_CUMULATIVE: Final = 2
_FAILED: Final = 2

Row = tuple[Any, ...]
Who = dict[int, dict[str, Any]]
"""Resource of each process."""


def requests(database: "DuckDBPyConnection") -> Iterator[dict[str, Any]]:
    """Of traces, metrics and logs, each of one process and of at most 1,000 items."""
    found = database.execute(_WHO).fetchall()
    who = {process: {"attributes": attributes(json.loads(kept))} for process, kept in found}
    for rows in read(database, _SPANS, _ITEMS):
        yield from _traces(rows, who)
    series = {one: tuple(rest) for one, *rest in database.execute(_SERIES).fetchall()}
    for rows in read(database, _POINTS, _ITEMS):
        yield from _metrics(rows, _point, series, who)
    for rows in read(database, _HISTOGRAMS, _ITEMS):
        yield from _metrics(rows, _histogram, series, who)
    for rows in read(database, _RECORDS, _ITEMS):
        yield from _logs(rows, who)


def attributes(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Key-value pairs of OTLP's."""
    return [{"key": key, "value": value(one)} for key, one in found.items()]


def value(one: Any) -> dict[str, Any]:
    """An AnyValue; empty for None."""
    match one:
        case None:
            return {}
        case bool():
            return {"boolValue": one}
        case int():
            return {"intValue": str(one)}
        case float():
            return {"doubleValue": number(one)}
        case str():
            return {"stringValue": one}
        case list():
            return {"arrayValue": {"values": [value(inner) for inner in one]}}
        case _:
            return {"kvlistValue": {"values": attributes(one)}}


def number(one: float) -> float | str:
    """JSON has no words for these three; protobuf's has."""
    if math.isnan(one):
        return "NaN"
    if math.isinf(one):
        return "Infinity" if one > 0 else "-Infinity"
    return one


def _traces(rows: list[Row], who: Who) -> Iterator[dict[str, Any]]:
    for process, scopes in _by_process(rows):
        told = [{"scope": {"name": scope}, "spans": [_span(*one) for one in some]} for scope, some in scopes]
        yield {"resourceSpans": [{"resource": who.get(process, {}), "scopeSpans": told}]}


def _span(
    trace: str,
    span: str,
    parent: str | None,
    name: str,
    kind: int,
    start: int,
    end: int,
    error: bool,
    message: str | None,
    kept: str,
    links: str | None,
    events: str | None,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "traceId": trace,
        "spanId": span,
        **({"parentSpanId": parent} if parent else {}),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": attributes(json.loads(kept)),
        "status": {**({"code": _FAILED} if error else {}), **({"message": message} if message else {})},
    }
    if links:
        found["links"] = [
            {"traceId": one["trace"], "spanId": one["span"], "attributes": attributes(one.get("attributes") or {})}
            for one in json.loads(links)
        ]
    if events:
        found["events"] = [
            {
                "timeUnixNano": str(one["time"]),
                "name": one["name"],
                "attributes": attributes(one.get("attributes") or {}),
            }
            for one in json.loads(events)
        ]
    return found


def _metrics(
    rows: list[Row], point: Callable[..., dict[str, Any]], described: dict[int, Row], who: Who
) -> Iterator[dict[str, Any]]:
    owned = [(*described[series][:2], series, *rest) for series, *rest in rows]
    for process, scopes in _by_process(owned):
        told = []
        for scope, some in scopes:
            metrics = [
                _metric(described[series], [point(*one[1:]) for one in each])
                for series, each in groupby(some, key=lambda row: row[0])
            ]
            told.append({"scope": {"name": scope}, "metrics": metrics})
        yield {"resourceMetrics": [{"resource": who.get(process, {}), "scopeMetrics": told}]}


def _metric(described: Row, points: list[dict[str, Any]]) -> dict[str, Any]:
    _, _, metric, unit, kind, monotonic, delta, kept = described
    shown = attributes(json.loads(kept))
    data: dict[str, Any] = {"dataPoints": [{**one, "attributes": shown} for one in points]}
    temporality = _DELTA if delta else _CUMULATIVE
    if kind == "histogram":
        return {"name": metric, "unit": unit, "histogram": {**data, "aggregationTemporality": temporality}}
    if kind == "sum":
        summed = {**data, "aggregationTemporality": temporality, "isMonotonic": monotonic}
        return {"name": metric, "unit": unit, "sum": summed}
    return {"name": metric, "unit": unit, "gauge": data}


def _point(time: int, given: float) -> dict[str, Any]:
    return {"timeUnixNano": str(time), "asDouble": number(given)}


def _histogram(
    time: int,
    start: int | None,
    count: int,
    total: float | None,
    least: float | None,
    most: float | None,
    bounds: list[float],
    counts: list[int],
) -> dict[str, Any]:
    known = {"sum": total, "min": least, "max": most}
    return {
        "timeUnixNano": str(time),
        **({"startTimeUnixNano": str(start)} if start is not None else {}),
        "count": str(count),
        **{name: number(one) for name, one in known.items() if one is not None},
        "explicitBounds": bounds,
        "bucketCounts": [str(one) for one in counts],
    }


def _logs(rows: list[Row], who: Who) -> Iterator[dict[str, Any]]:
    for process, scopes in _by_process(rows):
        told = [{"scope": {}, "logRecords": [_record(*one) for one in some]} for _, some in scopes]
        yield {"resourceLogs": [{"resource": who.get(process, {}), "scopeLogs": told}]}


def _record(
    time: int, name: str | None, severity: int | None, body: str | None, trace: str | None, span: str | None, kept: str
) -> dict[str, Any]:
    known = {"eventName": name, "severityNumber": severity, "traceId": trace, "spanId": span}
    return {
        "timeUnixNano": str(time),
        **{key: one for key, one in known.items() if one},
        **({"body": {"stringValue": body}} if body is not None else {}),
        "attributes": attributes(json.loads(kept)),
    }


def _by_process(rows: list[Row]) -> Iterator[tuple[int, list[tuple[str, list[Row]]]]]:
    """The rows by process and scope, their first two columns, which the rest is without."""
    for process, some in groupby(rows, key=lambda row: row[0]):
        yield process, [(scope, [row[2:] for row in each]) for scope, each in groupby(some, key=lambda row: row[1])]
