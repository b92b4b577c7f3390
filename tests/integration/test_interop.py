"""Beside what users have in their process: exporters, providers, readers, distros, configuration files, propagators.

Ours arrives, theirs stays theirs, nothing is exported twice. `verl_otel.runtime.current()` stands for a run of verl.
"""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from opentelemetry import baggage, context, propagate, trace

from otlp_server import REQUESTS, HttpSink
from sending import HTTP, environment, log_step, make_spans, run, send_to, small_verl
from verl_otel import runtime
from verl_otel.delivery.core import Signal
from verl_otel.telemetry import events, scope

INSTRUMENT = [str(Path(sys.executable).with_name("opentelemetry-instrument"))]

OURS = """
import json, sys
from opentelemetry import metrics, trace
from verl_otel import runtime
from verl_otel.telemetry import events, scalars

def ours(step):
    runtime.current().tracer.start_span(f"ours {step}").end()
    scalars.log({"loss": 0.5}, step, lambda key: scalars.ScalarName("verl." + key))
    events.emit(f"ours {step}", {})

def theirs(step):
    trace.get_tracer("theirs").start_span(f"theirs {step}").end()
    metrics.get_meter("theirs").create_counter("their.counter").add(1)
"""


def metric_names(sink):
    requests = [REQUESTS["metrics"].FromString(body) for body in sink.bodies("metrics")]
    scopes = [scope for request in requests for one in request.resource_metrics for scope in one.scope_metrics]
    return {metric.name for scope in scopes for metric in scope.metrics}


# Exporters


@pytest.mark.parametrize(
    ("name", "sent", "printed"),
    [
        ("otlp", True, False),
        (" OTLP ", True, False),
        ("", True, False),  # the specification: empty is unset
        ("console", False, True),
        ("otlp,console", True, False),
        ("none", False, False),
        ("prometheus", False, False),
        ("nobodys_own", False, False),
    ],
)
def test_each_exporter_name_means_what_the_documentation_says(monkeypatch, capsys, name, sent, printed):
    with HttpSink() as sink:
        names = {f"OTEL_{signal.name}_EXPORTER": name for signal in Signal}
        send_to(monkeypatch, sink.endpoint, HTTP, Signal, **names)
        make_spans(0, 1)
        log_step(1)
        events.emit("event", {})
        assert runtime.flush(20)
        runtime.stop()
        assert (sink.spans(), sink.steps(), sink.records()) == ((["0"], [1], ["event"]) if sent else ([], [], []))
    out = capsys.readouterr().out
    assert ('"name": "0"' in out, "verl.step.snapshot" in out, '"event' in out) == (printed,) * 3


@pytest.mark.parametrize("left", list(Signal))
def test_signals_are_chosen_one_by_one(monkeypatch, left):
    with HttpSink() as sink:
        send_to(monkeypatch, sink.endpoint, HTTP, (left,))
        make_spans(0, 1)
        log_step(1)
        events.emit("event", {})
        assert runtime.flush(20)
        assert {path for path, _ in sink.accepted} == {f"/v1/{left.value}"}


# Others' set-ups

PROVIDERS = """
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider

spans, readers = InMemorySpanExporter(), [InMemoryMetricReader(), InMemoryMetricReader()]
tracers, meters, loggers = TracerProvider(), MeterProvider(metric_readers=readers), LoggerProvider()
tracers.add_span_processor(SimpleSpanProcessor(spans))

def set_theirs():
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(meters)
    _logs.set_logger_provider(loggers)

if sys.argv[1] == "before":
    set_theirs()
ours(1)
if sys.argv[1] == "after":
    set_theirs()
theirs(1)
ours(2)
assert trace.get_tracer_provider() is tracers
assert metrics.get_meter_provider() is meters
assert _logs.get_logger_provider() is loggers
assert runtime.flush(30)
found = [
    [metric.name for one in reader.get_metrics_data().resource_metrics for scope in one.scope_metrics
     for metric in scope.metrics if not metric.name.startswith("otel.sdk")]
    for reader in readers
]
print(json.dumps({"spans": [span.name for span in spans.get_finished_spans()], "metrics": found}))
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_an_applications_own_providers_and_readers_stay_its_own(order):
    with HttpSink() as sink:
        out, err, status, _ = run(OURS + PROVIDERS, environment(sink.endpoint, HTTP), [order])
        assert status == 0, err
        assert (sink.spans(), sink.steps(), sink.records()) == (["ours 1", "ours 2"], [1, 2], ["ours 1", "ours 2"])
        assert "their.counter" not in metric_names(sink)
    assert json.loads(out) == {"spans": ["theirs 1"], "metrics": [["their.counter"], ["their.counter"]]}
    assert err == ""  # no "Overriding of current TracerProvider"


DISTRO = """
from opentelemetry.instrumentation.distro import BaseDistro
from opentelemetry.sdk._configuration import _OTelSDKConfigurator

class Distro(BaseDistro):
    def _configure(self, **kwargs):
        pass

class Configurator(_OTelSDKConfigurator):  # as opentelemetry-distro does
    pass
"""

B3 = """
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

class B3(TraceContextTextMapPropagator):
    def inject(self, carrier, context=None, setter=None):
        carrier["b3"] = "injected"
"""


def package(folder, name, code, entry_points):
    """A package as an installer leaves it."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n{one} = {name}:{attribute}\n" for group, one, attribute in entry_points)
    )
    return folder


@pytest.fixture
def distro(tmp_path):
    """A folder for PYTHONPATH with another distro and its configurator."""
    points = [("opentelemetry_distro", "other", "Distro"), ("opentelemetry_configurator", "other", "Configurator")]
    return package(tmp_path, "other_distro", DISTRO, points)


BOTH = """
import os
ours(1)
theirs(1)
assert runtime.flush(30)
trace.get_tracer_provider().force_flush()
metrics.get_meter_provider().force_flush()
print(trace.get_tracer_provider().resource.attributes["service.name"])
"""


def test_beside_another_distro_each_span_and_metric_is_exported_once(distro):
    with HttpSink() as sink:
        # A configurator has no exporters but those the variables name.
        exporters = {f"OTEL_{signal.name}_EXPORTER": "otlp" for signal in Signal}
        more = {**exporters, "OTEL_SERVICE_NAME": "service", "PYTHONPATH": str(distro)}
        out, err, status, _ = run(OURS + BOTH, environment(sink.endpoint, HTTP, **more), launcher=INSTRUMENT)
        assert status == 0, err
        assert sorted(sink.spans()) == ["ours 1", "theirs 1"]
        assert sink.steps() == [1]
        assert sink.records() == ["ours 1"]
        bodies = [body for body in sink.bodies("metrics") if b"their.counter" in body]
        assert bodies
        assert not [body for body in bodies if b"verl." in body]
    assert out == "service\n"
    assert "already loaded" not in err
    assert "Overriding" not in err


@pytest.fixture(scope="session")
def configuration(tmp_path_factory):
    """A folder for PYTHONPATH with the package that reads OTEL_CONFIG_FILE."""
    from opentelemetry.sdk import environment_variables

    if not hasattr(environment_variables, "OTEL_CONFIG_FILE"):
        pytest.skip("this SDK reads no configuration file")
    pytest.importorskip("yaml")
    pytest.importorskip("jsonschema")
    folder = tmp_path_factory.mktemp("configuration")
    wanted = f"opentelemetry-configuration=={version('opentelemetry-semantic-conventions')}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--target", str(folder), wanted], check=True)
    return folder


FILE = """
file_format: "1.0"
resource:
  attributes:
    - name: service.name
      value: of-the-file
tracer_provider:
  processors:
    - batch:
        exporter:
          otlp_http:
            endpoint: {endpoint}/v1/traces
meter_provider:
  readers:
    - periodic:
        exporter:
          otlp_http:
            endpoint: {endpoint}/v1/metrics
"""


def test_beside_a_configuration_file_ours_go_by_the_variables_and_theirs_by_the_file(distro, configuration, tmp_path):
    with HttpSink() as sink, HttpSink() as of_the_file:
        file = tmp_path / "otel.yaml"
        file.write_text(FILE.format(endpoint=of_the_file.endpoint))
        folders = {"PYTHONPATH": f"{distro}:{configuration}"}
        variables = environment(sink.endpoint, HTTP, OTEL_CONFIG_FILE=str(file), **folders)
        out, err, status, _ = run(OURS + BOTH, variables, launcher=INSTRUMENT)
        assert status == 0, err
        assert (sink.spans(), sink.steps(), sink.records()) == (["ours 1"], [1], ["ours 1"])
        assert (of_the_file.spans(), of_the_file.steps(), of_the_file.records()) == (["theirs 1"], [], [])
        assert "their.counter" in metric_names(of_the_file) - metric_names(sink)
    assert out == "of-the-file\n"


# Propagators

CARRIED = """
import verl
import verl_otel
verl_otel.instrument()
from verl_otel.telemetry import scope
with runtime.current().tracer.start_as_current_span("ours 1") as span:
    carrier = scope.inject()
assert "injected" not in repr(carrier)  # nobody else's propagator was asked
carried = trace.get_current_span(scope.extract(carrier)).get_span_context()
assert carried.span_id == span.get_span_context().span_id
assert runtime.flush(30)
"""


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("propagators", ["b3", "tracecontext,baggage,b3", "baggage", "none"])
def test_our_context_is_carried_whatever_the_propagators(tmp_path, propagators, installed):
    folder = package(tmp_path, "b3_propagator", B3, [("opentelemetry_propagator", "b3", "B3")] if installed else [])
    with HttpSink() as sink:
        variables = {"OTEL_PROPAGATORS": propagators, "PYTHONPATH": str(small_verl(folder))}
        _, err, status, _ = run(OURS + CARRIED, environment(sink.endpoint, HTTP, **variables))
        assert status == 0, err
        assert sink.spans() == ["ours 1"]


def test_the_users_propagators_and_baggage_are_left_alone(monkeypatch):
    send_to(monkeypatch, "http://127.0.0.1:1", HTTP, ())
    theirs = propagate.get_global_textmap()
    token = context.attach(baggage.set_baggage("team", "rl"))
    try:
        sent, onward = {}, {}
        with runtime.current().tracer.start_as_current_span("ours"):
            propagate.inject(sent)
            carrier = scope.inject()
        assert "team" not in repr(carrier)
        arrived = scope.extract(carrier)
        assert trace.get_current_span(arrived).get_span_context().is_remote
        # What the receiving side has of its own stays, and travels on by its own propagators.
        propagate.inject(onward, arrived)
        assert onward == sent
        assert onward["baggage"] == "team=rl"
    finally:
        context.detach(token)
    assert propagate.get_global_textmap() is theirs
