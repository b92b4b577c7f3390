"""What arrived of a run, as plain objects: spans, points and events with the process that sent each."""

import json
from dataclasses import dataclass, field
from typing import Any

import duckdb

from verl_otel import semconv


@dataclass(frozen=True)
class CapturedSpan:
    """A finished span; ids are hex, times ns since the epoch, `parent` is empty for a root."""

    name: str
    trace: str
    id: str
    parent: str
    start: int
    end: int
    kind: int
    error: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]
    scope: str
    links: tuple[tuple[str, str], ...] = ()

    @property
    def seconds(self) -> float:
        """Its duration."""
        return (self.end - self.start) / 1e9

    @property
    def process(self) -> str:
        """The instance that sent it."""
        return str(self.resource.get("service.instance.id", ""))


@dataclass(frozen=True)
class CapturedPoint:
    """A data point; `value` is the number of a gauge or sum, the sum of a histogram.

    `bucket_counts`, `explicit_bounds`: of a histogram, as OTLP has them. `scope`: of whoever measured it.
    """

    metric: str
    unit: str
    kind: str
    time: int
    value: float
    attributes: dict[str, Any]
    resource: dict[str, Any]
    count: int = 0
    bucket_counts: tuple[int, ...] = ()
    explicit_bounds: tuple[float, ...] = ()
    scope: str = ""

    @property
    def process(self) -> str:
        """The instance that sent it."""
        return str(self.resource.get("service.instance.id", ""))


@dataclass(frozen=True)
class CapturedEvent:
    """A log record with a name; `trace` and `span`: those it belongs to, empty if to none."""

    name: str
    time: int
    attributes: dict[str, Any]
    resource: dict[str, Any]
    trace: str = ""
    span: str = ""


@dataclass
class Capture:
    """All that arrived."""

    spans: list[CapturedSpan] = field(default_factory=list)
    points: list[CapturedPoint] = field(default_factory=list)
    events: list[CapturedEvent] = field(default_factory=list)

    def processes(self) -> set[str]:
        """Instances that sent anything."""
        return {one.process for one in self.spans} | {one.process for one in self.points}

    def snapshots(self) -> dict[tuple[str, int], list[CapturedPoint]]:
        """Points by (process, time) of each snapshot's mark; those are the scalars of one `Tracking.log` call."""
        marks = {(one.process, one.time) for one in self.points if one.metric == semconv.STEP_SNAPSHOT.name}
        found: dict[tuple[str, int], list[CapturedPoint]] = {mark: [] for mark in marks}
        for one in self.points:
            if (mark := (one.process, one.time)) in found:
                found[mark].append(one)
        return found

    def last(self, metric: str) -> dict[str, dict[tuple[tuple[str, Any], ...], float]]:
        """The newest value of each series of a metric, by process and attributes."""
        found: dict[str, dict[tuple[tuple[str, Any], ...], float]] = {}
        for one in sorted((one for one in self.points if one.metric == metric), key=lambda point: point.time):
            found.setdefault(one.process, {})[tuple(sorted(one.attributes.items()))] = one.value
        return found


def captured(database: duckdb.DuckDBPyConnection) -> Capture:
    """Of a run's database, points in the order of their times; its tables are described in docs/local.md."""
    senders = {
        process: _attributes(text)
        for process, text in database.execute("SELECT process, attributes FROM processes").fetchall()
    }
    return Capture(
        list(_spans(database, senders)),
        [*_numbers(database, senders), *_histograms(database, senders)],
        list(_events(database, senders)),
    )


Senders = dict[int, dict[str, Any]]


def _spans(database, senders: Senders):
    asked = database.execute(
        'SELECT name, trace, span, parent, start, "end", kind, error, attributes, process, scope, links FROM spans'
    )
    for name, trace, span, parent, start, end, kind, error, attributes, process, scope, links in asked.fetchall():
        linked = tuple((one["trace"], one["span"]) for one in json.loads(links or "[]"))
        yield CapturedSpan(
            name, trace, span, parent or "", start, end, kind, error, _attributes(attributes), senders[process], scope,
            linked,
        )  # fmt: skip


def _numbers(database, senders: Senders):
    asked = database.execute(
        "SELECT metric, unit, kind, time, value, attributes, process, scope FROM points JOIN series USING (series) "
        "ORDER BY time"
    )
    for metric, unit, kind, time, value, attributes, process, scope in asked.fetchall():
        yield CapturedPoint(metric, unit, kind, time, value, _attributes(attributes), senders[process], scope=scope)


def _histograms(database, senders: Senders):
    asked = database.execute(
        "SELECT metric, unit, time, sum, count, counts, bounds, attributes, process, scope "
        "FROM histograms JOIN series USING (series) ORDER BY time"
    )
    for metric, unit, time, total, count, counts, bounds, attributes, process, scope in asked.fetchall():
        yield CapturedPoint(
            metric, unit, "histogram", time, total, _attributes(attributes), senders[process], count, tuple(counts),
            tuple(bounds), scope,
        )  # fmt: skip


def _events(database, senders: Senders):
    asked = database.execute("SELECT name, time, attributes, process, trace, span FROM events")
    for name, time, attributes, process, trace, span in asked.fetchall():
        yield CapturedEvent(name or "", time, _attributes(attributes), senders[process], trace or "", span or "")


def _attributes(text: str) -> dict[str, Any]:
    """Arrays are tuples, as OTLP's are to Python."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(text).items()}
