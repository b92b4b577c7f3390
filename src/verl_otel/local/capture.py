"""What a capture file holds, as plain objects: spans, points and events with the process that sent each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from verl_otel import semconv
from verl_otel.local.receiver import read_capture


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
    """A data point; `value` is the number of a gauge or sum, the sum of a histogram."""

    metric: str
    unit: str
    kind: str
    time: int
    value: float
    attributes: dict[str, Any]
    resource: dict[str, Any]
    count: int = 0

    @property
    def process(self) -> str:
        """The instance that sent it."""
        return str(self.resource.get("service.instance.id", ""))


@dataclass(frozen=True)
class CapturedEvent:
    """A log record with a name."""

    name: str
    time: int
    attributes: dict[str, Any]
    resource: dict[str, Any]


@dataclass
class Capture:
    """All that arrived, in the order it did."""

    spans: list[CapturedSpan] = field(default_factory=list)
    points: list[CapturedPoint] = field(default_factory=list)
    events: list[CapturedEvent] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> "Capture":
        """Read a file that `Receiver` wrote. Raises `OSError` if there is none."""
        found = cls()
        readers = {"traces": found._spans_of, "metrics": found._points_of, "logs": found._events_of}
        for signal, request in read_capture(path):
            readers[signal](request)
        return found

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

    def _spans_of(self, request: Any) -> None:
        for resource in request.resource_spans:
            who = _attributes(resource.resource.attributes)
            for scope, span in _each(resource.scope_spans, "spans"):
                self.spans.append(
                    CapturedSpan(
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        span.kind,
                        span.status.code == span.status.STATUS_CODE_ERROR,
                        _attributes(span.attributes),
                        who,
                        scope,
                        tuple((link.trace_id.hex(), link.span_id.hex()) for link in span.links),
                    )
                )

    def _points_of(self, request: Any) -> None:
        for resource in request.resource_metrics:
            who = _attributes(resource.resource.attributes)
            for _, metric in _each(resource.scope_metrics, "metrics"):
                kind = metric.WhichOneof("data")
                for point in getattr(metric, kind).data_points:
                    histogram = kind == "histogram"
                    value = point.sum if histogram else getattr(point, point.WhichOneof("value"))
                    self.points.append(
                        CapturedPoint(
                            metric.name,
                            metric.unit,
                            kind,
                            point.time_unix_nano,
                            value,
                            _attributes(point.attributes),
                            who,
                            point.count if histogram else 0,
                        )
                    )

    def _events_of(self, request: Any) -> None:
        for resource in request.resource_logs:
            who = _attributes(resource.resource.attributes)
            for _, record in _each(resource.scope_logs, "log_records"):
                attributes = _attributes(record.attributes)
                name = getattr(record, "event_name", "") or attributes.get("event.name", "")
                self.events.append(CapturedEvent(name, record.time_unix_nano, attributes, who))


def _each(scopes: Iterable[Any], items: str) -> Iterator[tuple[str, Any]]:
    for scope in scopes:
        for item in getattr(scope, items):
            yield scope.scope.name, item


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(_value(one) for one in value.array_value.values)
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind) if kind else None
