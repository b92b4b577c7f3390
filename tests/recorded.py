"""What a recorder's file holds, as the plain objects of `captured`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from captured import Capture, CapturedEvent, CapturedPoint, CapturedSpan

from recorder import read_capture


def recorded(path: Path) -> Capture:
    """Read a file that a `Recorder` wrote, in the order it came. Raises `OSError` if there is none."""
    found = Capture()
    readers = {"traces": _spans_of, "metrics": _points_of, "logs": _events_of}
    for signal, request in read_capture(path):
        readers[signal](found, request)
    return found


def _spans_of(found: Capture, request: Any) -> None:
    for resource in request.resource_spans:
        who = _attributes(resource.resource.attributes)
        for scope, span in _each(resource.scope_spans, "spans"):
            found.spans.append(
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


def _points_of(found: Capture, request: Any) -> None:
    for resource in request.resource_metrics:
        who = _attributes(resource.resource.attributes)
        for scope, metric in _each(resource.scope_metrics, "metrics"):
            kind = metric.WhichOneof("data")
            for point in getattr(metric, kind).data_points:
                histogram = kind == "histogram"
                value = point.sum if histogram else getattr(point, point.WhichOneof("value"))
                found.points.append(
                    CapturedPoint(
                        metric.name,
                        metric.unit,
                        kind,
                        point.time_unix_nano,
                        value,
                        _attributes(point.attributes),
                        who,
                        point.count if histogram else 0,
                        tuple(point.bucket_counts) if histogram else (),
                        tuple(point.explicit_bounds) if histogram else (),
                        scope,
                    )
                )


def _events_of(found: Capture, request: Any) -> None:
    for resource in request.resource_logs:
        who = _attributes(resource.resource.attributes)
        for _, record in _each(resource.scope_logs, "log_records"):
            attributes = _attributes(record.attributes)
            name = getattr(record, "event_name", "") or attributes.get("event.name", "")
            trace, span = record.trace_id.hex(), record.span_id.hex()
            found.events.append(CapturedEvent(name, record.time_unix_nano, attributes, who, trace, span))


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
