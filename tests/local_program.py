"""A program that is observed by OpenTelemetry's SDK alone, for `verl-otel run`: it tells of a run, and ends as asked.

usage: local_program.py RUN [--exit N] [--wait] [--raise]
"""

import signal
import sys
import time

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

run, *options = sys.argv[1:]
resource = Resource.create({"verl.run.id": run, "service.instance.id": "program", "host.name": "here"})
tracers = TracerProvider(resource=resource)
tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
meters = MeterProvider(resource=resource, metric_readers=[PeriodicExportingMetricReader(OTLPMetricExporter())])
meters.get_meter("program").create_counter("made.things").add(3)
with tracers.get_tracer("program").start_as_current_span("verl.step", attributes={"verl.step": 1}):
    time.sleep(0.01)
code = int(options[options.index("--exit") + 1]) if "--exit" in options else 0
if "--wait" in options:
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append("interrupted"))
    print("waiting", flush=True)
    while not seen:
        time.sleep(0.02)
    time.sleep(0.2)
    print(*seen, flush=True)
tracers.shutdown()
meters.shutdown()
sys.exit(code)
