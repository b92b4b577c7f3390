"""OTLP's spans and log records as rows, and what they say of the run as a whole."""

from dataclasses import dataclass, field
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.store.attributes import (
    bool_or_none,
    float_or_none,
    int_or_none,
    plain,
    text_or_none,
    time_of,
    to_json,
    value_of,
)
from verl_otel.local.store.catalog import Catalog, Process
from verl_otel.local.store.points import Number, add_metrics
from verl_otel.local.store.shapes import Chunk, Shapes

_ERROR: Final = 2
_LAST_KIND: Final = 5
_LAST_SEVERITY: Final = 24
_TRAJECTORY: Final = semconv.SPAN_AGENT
_OF_RUN: Final = frozenset({semconv.EVENT_RUN_START, semconv.EVENT_RUN_RESUME, semconv.EVENT_RUN_END})


@dataclass(frozen=True)
class RunEvent:
    """The run started, was resumed or ended."""

    name: str
    time: int
    process: Process
    attributes: dict[str, Any]


@dataclass
class Rows:
    """By table, in the order of its columns; `chunks`: more numbers. `run_events`: also among the events."""

    numbers: list[Number] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    histograms: list[tuple[Any, ...]] = field(default_factory=list)
    spans: list[tuple[Any, ...]] = field(default_factory=list)
    trajectories: list[tuple[Any, ...]] = field(default_factory=list)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    run_events: list[RunEvent] = field(default_factory=list)

    def add_known(self, resource: bytes, body: bytes, process: Process, shapes: Shapes) -> bool:
        """Metrics of a process, as they came; False if they must be parsed to be read."""
        found = shapes.read(resource, body)
        if found is None:
            return False
        chunk, histograms = found
        self.chunks.append(chunk)
        self.histograms += histograms
        for times in (chunk.times.tolist(), [row[1] for row in histograms]):
            if times:
                process.saw(min(times))
                process.saw(max(times))
        return True

    def add_unknown(
        self, resource: bytes, body: bytes, told: Any, process: Process, catalog: Catalog, shapes: Shapes
    ) -> None:
        """The same, parsed, so that they are known next time."""
        before, older = len(self.numbers), len(self.histograms)
        add_metrics(told, process, catalog, self.numbers, self.histograms)
        shapes.learn(resource, body, self.numbers[before:], self.histograms[older:], catalog.named)

    def add(self, signal: str, told: Any, process: Process, catalog: Catalog) -> None:
        """What a process told: ResourceSpans, ResourceMetrics or ResourceLogs."""
        if signal == "traces":
            self._add_spans(told, process)
        elif signal == "metrics":
            add_metrics(told, process, catalog, self.numbers, self.histograms)
        else:
            self._add_events(told, process)

    def _add_spans(self, told: Any, process: Process) -> None:
        add, last = self.spans.append, 0
        for scoped in told.scope_spans:
            scope = scoped.scope.name
            for span in scoped.spans:
                attributes = plain(span.attributes)
                status, end = span.status, time_of(span.end_time_unix_nano)
                last = max(last, end)
                row = (
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex() or None,
                    span.name,
                    span.kind if 0 <= span.kind <= _LAST_KIND else 0,
                    time_of(span.start_time_unix_nano),
                    end,
                    status.code == _ERROR,
                    status.message or None,
                    scope,
                    process.number,
                    *_copied(attributes),
                    to_json(attributes),
                    _links(span.links) if span.links else None,
                    _span_events(span.events) if span.events else None,
                )
                add(row)
                if row[3].startswith(_TRAJECTORY):
                    self.trajectories.append(_trajectory(row, attributes))
        process.saw(last)

    def _add_events(self, told: Any, process: Process) -> None:
        for scoped in told.scope_logs:
            for record in scoped.log_records:
                attributes = plain(record.attributes)
                # Before OTLP 1.5 the name is an attribute.
                name = getattr(record, "event_name", "") or text_or_none(attributes.get(semconv.EVENT_NAME)) or None
                time = time_of(record.time_unix_nano or record.observed_time_unix_nano)
                severity = record.severity_number
                self.events.append(
                    (
                        time,
                        name,
                        severity if 0 < severity <= _LAST_SEVERITY else None,
                        _body(record.body),
                        record.trace_id.hex() or None,
                        record.span_id.hex() or None,
                        process.number,
                        to_json(attributes),
                    )
                )
                process.saw(time)
                if name in _OF_RUN:
                    self.run_events.append(RunEvent(name, time, process, attributes))


def _copied(attributes: dict[str, Any]) -> tuple[Any, ...]:
    """Attributes that are columns, too: most spans lack most of them."""
    get = attributes.get
    return (
        None if (step := get(semconv.STEP)) is None else int_or_none(step),
        None if (phase := get(semconv.PHASE)) is None else text_or_none(phase),
        None if (role := get(semconv.ROLE)) is None else text_or_none(role),
        None if (rank := get(semconv.RANK)) is None else int_or_none(rank),
        None if (replica := get(semconv.REPLICA)) is None else int_or_none(replica),
        None if (lane := get(semconv.LANE)) is None else text_or_none(lane),
        None if (validation := get(semconv.VALIDATION)) is None else bool_or_none(validation),
    )


def _trajectory(row: tuple[Any, ...], attributes: dict[str, Any]) -> tuple[Any, ...]:
    get, prefix = attributes.get, semconv.REWARD_PART
    parts = {
        key.removeprefix(prefix): float_or_none(value) for key, value in attributes.items() if key.startswith(prefix)
    }
    trace, span, _, name, _, start, end = row[:7]
    return (
        trace,
        span,
        name,
        start,
        end,
        row[10],
        int_or_none(get(semconv.STEP)),
        bool_or_none(get(semconv.VALIDATION)),
        text_or_none(get(semconv.SAMPLE_UID)),
        int_or_none(get(semconv.ROLLOUT_SESSION)),
        text_or_none(get(semconv.ROLLOUT_OUTCOME)),
        float_or_none(get(semconv.REWARD)),
        int_or_none(get(semconv.ROLLOUT_PROMPT_TOKENS)),
        int_or_none(get(semconv.ROLLOUT_RESPONSE_TOKENS)),
        int_or_none(get(semconv.ROLLOUT_GENERATED_TOKENS)),
        int_or_none(get(semconv.ROLLOUT_TURNS)),
        int_or_none(get(semconv.ROLLOUT_MODEL_CALLS)),
        int_or_none(get(semconv.ROLLOUT_TOOL_CALLS)),
        text_or_none(get(semconv.ROLLOUT_STOP_REASON)),
        int_or_none(get(semconv.WEIGHTS_OLDEST)),
        int_or_none(get(semconv.WEIGHTS_NEWEST)),
        to_json(parts) if parts else None,
    )


def _links(links: Any) -> str:
    return to_json(
        [{"trace": one.trace_id.hex(), "span": one.span_id.hex(), "attributes": plain(one.attributes)} for one in links]
    )


def _span_events(events: Any) -> str:
    return to_json(
        [{"time": time_of(one.time_unix_nano), "name": one.name, "attributes": plain(one.attributes)} for one in events]
    )


def _body(body: Any) -> str | None:
    value = value_of(body)
    if value is None or isinstance(value, str):
        return value or None
    return to_json(value)
