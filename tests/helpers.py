"""Test tools: an in-memory view of what the telemetry layer records, without a pipeline that sends."""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import time_ns

import pytest
from opentelemetry.sdk.metrics.export import MetricsData
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from verl_otel import runtime


@dataclass
class Recorded:
    """What this process recorded so far."""

    exporter: InMemorySpanExporter

    @property
    def spans(self):
        """Finished spans by name; later ones of a name replace earlier ones."""
        return {span.name: span for span in self.exporter.get_finished_spans()}

    @property
    def names(self):
        """Names of finished spans, in the order they ended."""
        return [span.name for span in self.exporter.get_finished_spans()]

    def metrics(self):
        """Data points of a collection made now, by metric name."""
        return points_of(runtime.current().pipeline.reader.gather(time_ns()))

    def snapshots(self):
        """Data points of the snapshots queued, by metric name, one dict each."""
        return [points_of(data) for data in runtime.current().pipeline.reader.snapshots() if data is not None]

    def events(self):
        """Log records queued, as (event name, attributes)."""
        records = runtime.current().pipeline.log_processor._events.take(1000)
        found = []
        for record in (getattr(one, "log_record", one) for one in records):
            attributes = dict(record.attributes)
            found.append((getattr(record, "event_name", None) or attributes.pop("event.name", None), attributes))
        return found

    def messages(self):
        """Log messages queued, as plain records of the SDK."""
        records = runtime.current().pipeline.log_processor._messages.take(10_000)
        return [getattr(one, "log_record", one) for one in records]


def points_of(data: MetricsData):
    found = {}
    for resource in data.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                found.setdefault(metric.name, []).extend(metric.data.data_points)
    return found


@contextmanager
def recording(monkeypatch: pytest.MonkeyPatch):
    """A runtime whose threads don't run, so that what is queued stays to be looked at."""
    from verl_otel.delivery.pipeline import Pipeline

    monkeypatch.setattr(Pipeline, "start", lambda self: None)
    monkeypatch.setattr(Pipeline, "flush", lambda self, seconds: True)
    exporter = InMemorySpanExporter()
    runtime.current()._tracers.add_span_processor(SimpleSpanProcessor(exporter))
    yield Recorded(exporter)


def with_settings(monkeypatch, **values):
    """From now on this process's runtime has these settings, as if their variables had been set before."""
    monkeypatch.setattr(runtime.current(), "settings", replace(runtime.current().settings, **values))
