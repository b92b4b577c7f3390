"""What the standard variables say about a process (resource, limits, switches), and a clock that jumps under it."""

import pytest

from otlp_server import REQUESTS, HttpSink
from sending import HTTP, environment, eventually, log_step, run, send_to, small_verl, start, unused_port
from verl_otel import runtime
from verl_otel.delivery.core import Signal
from verl_otel.telemetry import events

# The resource


def resource_with(monkeypatch, attributes, **more):
    send_to(monkeypatch, "http://127.0.0.1:1", HTTP, (), OTEL_RESOURCE_ATTRIBUTES=attributes, **more)
    return dict(runtime.current().resource.attributes)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ("team=rl,empty=,deployment.environment=pre prod", {"team": "rl", "deployment.environment": "pre prod"}),
        (" team = rl , where=caf%C3%A9%2C%20Paris", {"team": "rl", "where": "café, Paris"}),
        ("team=rl,nonsense,,=5,where=a=b", {"team": "rl", "where": "a=b"}),
        ("team=rl,team=infra", {"team": "infra"}),
        ("where=düsseldorf", {"where": "düsseldorf"}),
    ],
)
def test_odd_resource_attributes_cost_themselves_alone(monkeypatch, attributes, expected):
    found = resource_with(monkeypatch, attributes)
    assert found["service.name"] == "verl"
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("attributes", "more", "name"),
    [
        ("", {}, "verl"),
        ("service.name=theirs", {}, "theirs"),
        (" service.name = theirs", {}, "theirs"),
        ("service.name=theirs", {"OTEL_SERVICE_NAME": "more"}, "more"),
        ("service.name=", {}, "verl"),
        ("peer.service.name=theirs", {}, "verl"),
    ],
)
def test_the_service_has_the_users_name_or_ours(monkeypatch, attributes, more, name):
    assert resource_with(monkeypatch, attributes, **more)["service.name"] == name


def test_what_names_one_process_is_never_taken_from_the_environment(monkeypatch):
    given = "service.instance.id=one,host.name=one,process.pid=1,host.id=one,process.owner=one,team=rl"
    found = resource_with(monkeypatch, given)
    assert "one" not in found.values()
    assert found["process.pid"] > 1
    assert found["team"] == "rl"


# Limits


@pytest.mark.filterwarnings("ignore:Log record attributes were dropped")  # the SDK tells its user
def test_limits_of_spans_and_records_are_the_sdks_and_never_cut_a_snapshot(monkeypatch):
    limits = {
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "2",
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "10",
        "OTEL_SPAN_EVENT_COUNT_LIMIT": "1",
        "OTEL_ATTRIBUTE_COUNT_LIMIT": "1",
    }
    with HttpSink() as sink:
        send_to(monkeypatch, sink.endpoint, HTTP, Signal, **limits)
        span = runtime.current().tracer.start_span("0", attributes={"a": 1, "b": "x" * 100, "c": 3})
        for _ in range(3):
            span.add_event("event")
        span.end()
        log_step(1, **{"a long name of a scalar": 1.0, "another": 2.0})
        events.emit("verl.run.start", {"a": "x" * 100, "b": 2})
        assert runtime.flush(20)
        (body,) = sink.bodies("traces")
        (span,) = REQUESTS["traces"].FromString(body).resource_spans[0].scope_spans[0].spans
        assert (len(span.attributes), span.dropped_attributes_count, len(span.events)) == (2, 1, 1)
        assert max(len(one.value.string_value) for one in span.attributes) == 10
        assert sink.records() == ["verl.run.start"]
        snapshot = next(body for body in sink.bodies("metrics") if b"verl.step.snapshot" in body)
        assert b"a long name of a scalar" in snapshot
        assert b"another" in snapshot


# Switches

RUN = """
import threading
import verl_otel
verl_otel.instrument()
from verl.utils.tracking import Tracking
Tracking("project", "experiment").log({"loss": 0.5}, 7)
assert verl_otel.flush(30)
print([one.name for one in threading.enumerate() if one.name.startswith("verl-otel")])
verl_otel.uninstrument()
"""


@pytest.mark.parametrize(
    ("variable", "value", "off"),
    [
        ("OTEL_SDK_DISABLED", "true", True),
        ("OTEL_SDK_DISABLED", " TRUE ", True),
        ("OTEL_SDK_DISABLED", "false", False),
        ("OTEL_SDK_DISABLED", "1", False),  # the specification knows one word
        ("VERL_OTEL_ENABLED", "false", True),
        ("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "*", True),
    ],
)
def test_switched_off_nothing_starts_and_nothing_is_sent(tmp_path, variable, value, off):
    with HttpSink() as sink:
        switch = {variable: value, "PYTHONPATH": str(small_verl(tmp_path))}
        out, err, status, _ = run(RUN, environment(sink.endpoint, HTTP, **switch))
        assert status == 0, err
        assert sink.steps() == ([] if off else [7])
        assert (sink.headers == []) is off
    assert (out == "[]\n") is off
    assert err == ""


# A clock that jumps

JUMPS = """
import time
real, real_ns, offset = time.time, time.time_ns, 0.0
time.time = lambda: real() + offset
time.time_ns = lambda: real_ns() + int(offset * 1e9)

import sys
from verl_otel import runtime, semconv
from verl_otel.telemetry import scalars, stuck
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.scope import Scope

gen = {"verl.phase": "gen"}
for step, jump in enumerate([0, 5 * 3600, -10 * 3600, 3600, -30 * 86400]):
    duration = (semconv.PHASE_DURATION, gen)
    recording = Recording(f"{step}", gen, scope=Scope(step=step), duration=duration, shown_open=gen)
    offset += jump
    scalars.log({"loss": 0.5}, step, lambda key: scalars.ScalarName("verl." + key))
    time.sleep(0.5)  # at least one collection while it is open
    recording.stop()
print("ready", flush=True)
sys.stdin.readline()
began = time.monotonic()
assert runtime.flush(30)
assert time.monotonic() - began < 25
"""


def test_a_clock_that_jumps_by_hours_stops_nothing_and_makes_no_negative_duration():
    port = unused_port()
    process = start(JUMPS, environment(f"http://127.0.0.1:{port}", HTTP, OTEL_METRIC_EXPORT_INTERVAL="200"))
    try:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        with HttpSink(port=port) as sink:
            # What was kept while the clock jumped arrives, and the interval goes on, by a clock that doesn't.
            assert eventually(lambda: len(sink.spans()) == 5 and len(sink.steps()) == 5)
            so_far = len(sink.bodies("metrics"))
            assert eventually(lambda: len(sink.bodies("metrics")) >= so_far + 3)
            _, err = process.communicate("go on\n", timeout=60)
            assert process.returncode == 0, err
    finally:
        process.kill()
    assert sorted(sink.spans()) == [str(step) for step in range(5)]
    assert sorted(sink.steps()) == list(range(5))
    assert sink.records() == []  # nothing is stuck
    last = points(sink, "verl.phase.duration")[-1].histogram.data_points[0]
    assert last.count == 5
    assert 2 < last.sum < 120
    opened = [one.gauge.data_points[0].as_double for one in points(sink, "verl.phase.open.duration")]
    assert opened
    assert min(opened) >= 0
    assert max(opened) < 120


def points(sink, name):
    requests = [REQUESTS["metrics"].FromString(body) for body in sink.bodies("metrics")]
    scopes = [scope for request in requests for one in request.resource_metrics for scope in one.scope_metrics]
    return [metric for scope in scopes for metric in scope.metrics if metric.name == name]
