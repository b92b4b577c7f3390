"""Delivery against real servers on loopback: what is sent arrives, is kept, or is counted; exits are bounded."""

import inspect
import json
import logging
import os
import socket
import subprocess
import sys
import time

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otlp_server import GrpcSink, HttpSink
from recorded import recorded
from recorder import Recorder
from verl_otel import runtime
from verl_otel.delivery.core import Reason, Signal
from verl_otel.telemetry import scalars


def point_at(monkeypatch, endpoint, protocol="http/protobuf", **more):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    for name, value in more.items():
        monkeypatch.setenv(name, value)


def make_spans(count):
    for number in range(count):
        runtime.current().tracer.start_span(f"span {number}").end()


def dropped():
    return runtime.current().pipeline.statistics().dropped


def unused_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.parametrize("compression", ["none", "gzip", "deflate"])
def test_spans_arrive_whole_over_http(monkeypatch, tmp_path, compression):
    capture = tmp_path / "capture"
    with Recorder(capture) as receiver:
        point_at(monkeypatch, receiver.endpoint, OTEL_EXPORTER_OTLP_COMPRESSION=compression)
        make_spans(1500)
        assert runtime.flush(10)
        runtime.stop()
    found = recorded(capture)
    assert {span.name for span in found.spans} == {f"span {number}" for number in range(1500)}
    (resource,) = {json.dumps(span.resource, sort_keys=True) for span in found.spans}
    assert json.loads(resource)["service.name"] == "verl"
    assert json.loads(resource)["process.pid"] == os.getpid()


def test_spans_arrive_whole_over_grpc(monkeypatch):
    with GrpcSink() as sink:
        point_at(monkeypatch, sink.endpoint, "grpc")
        make_spans(1500)
        assert runtime.flush(10)
        assert runtime.current().pipeline.statistics().exported[Signal.TRACES] == 1500
        assert len(sink.accepted) >= 3
        runtime.stop()


def test_a_proxy_variable_does_not_catch_loopback(monkeypatch):
    with HttpSink() as sink:
        point_at(monkeypatch, sink.endpoint, http_proxy="http://127.0.0.1:1", HTTP_PROXY="http://127.0.0.1:1")
        make_spans(1)
        assert runtime.flush(5)


def test_a_proxy_variable_does_not_catch_loopback_over_grpc(monkeypatch):
    if "channel_options" not in inspect.signature(OTLPSpanExporter).parameters:
        pytest.skip("this OTLP exporter has no way to say so (it has since 1.36)")
    with GrpcSink() as sink:
        point_at(monkeypatch, sink.endpoint, "grpc", http_proxy="http://127.0.0.1:1", grpc_proxy="http://127.0.0.1:1")
        make_spans(1)
        assert runtime.flush(5)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_failure_loses_nothing(monkeypatch, status):
    with HttpSink(*[(status, {"Retry-After": "0"}, b"")] * 2) as sink:
        point_at(monkeypatch, sink.endpoint, OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")
        make_spans(3)
        assert runtime.flush(5)
        assert sink.spans() == ["span 0", "span 1", "span 2"]
        assert dropped() == {}


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_a_final_refusal_is_counted_and_said_once(monkeypatch, caplog, status):
    with HttpSink((status, {}, b""), (status, {}, b"")) as sink, caplog.at_level(logging.WARNING, "verl_otel"):
        point_at(monkeypatch, sink.endpoint, OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")
        make_spans(3)
        assert runtime.flush(5)
        make_spans(2)
        assert runtime.flush(5)
        make_spans(1)
        assert runtime.flush(5)
        assert sink.spans() == ["span 0"]
        assert dropped() == {(Signal.TRACES, Reason.REFUSED): 5}
    assert len([one for one in caplog.messages if str(status) in one]) == 1


def test_a_partial_success_is_counted(monkeypatch):
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 2
    with HttpSink((200, {}, answer.SerializeToString())) as sink:
        point_at(monkeypatch, sink.endpoint, OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")
        make_spans(5)
        assert runtime.flush(5)
        assert dropped() == {(Signal.TRACES, Reason.PARTIAL): 2}
        assert runtime.current().pipeline.statistics().exported == {Signal.TRACES: 3}


def test_a_backend_that_comes_up_later_gets_everything(monkeypatch, caplog):
    port = unused_port()
    point_at(monkeypatch, f"http://127.0.0.1:{port}", OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")
    with caplog.at_level(logging.WARNING, "verl_otel"):
        make_spans(10)
        assert not runtime.flush(1)
        with HttpSink(port=port) as sink:
            assert runtime.flush(10)
            assert len(sink.spans()) == 10
    assert dropped() == {}
    assert [("can't be reached" in one, "answers again" in one) for one in caplog.messages] == [
        (True, False),
        (False, True),
    ]


def test_grpc_reconnects_after_an_outage(monkeypatch):
    with GrpcSink(refuse=grpc.StatusCode.UNAVAILABLE) as sink:
        point_at(monkeypatch, sink.endpoint, "grpc", OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")
        make_spans(4)
        assert not runtime.flush(1)
        sink.refuse = None
        assert runtime.flush(10)
        assert runtime.current().pipeline.statistics().exported == {Signal.TRACES: 4}


def test_a_message_that_is_too_large_for_the_server_costs_itself_alone(monkeypatch):
    with GrpcSink() as sink:
        point_at(monkeypatch, sink.endpoint, "grpc", OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")
        for size in (10, 5_000_000, 10):
            runtime.current().tracer.start_span("sized", attributes={"text": "x" * size}).end()
        assert runtime.flush(10)
        assert runtime.current().pipeline.statistics().exported == {Signal.TRACES: 2}
        assert dropped() == {(Signal.TRACES, Reason.REFUSED): 1}


def test_many_large_spans_are_sent_in_messages_that_servers_take(monkeypatch):
    with GrpcSink() as sink:
        point_at(monkeypatch, sink.endpoint, "grpc", OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")
        for _ in range(200):
            runtime.current().tracer.start_span("large", attributes={"text": "x" * 50_000}).end()
        assert runtime.flush(20)
        assert runtime.current().pipeline.statistics().exported == {Signal.TRACES: 200}
        assert max(map(len, sink.accepted)) < 4 << 20


def test_a_snapshot_that_cannot_be_made_does_not_hold_up_the_next(monkeypatch, tmp_path):
    capture = tmp_path / "capture"
    with Recorder(capture) as receiver:
        point_at(monkeypatch, receiver.endpoint)
        reader = runtime.current().pipeline.reader
        reader.put_snapshot(lambda: 1 / 0)
        scalars.log({"a": 1}, 2, lambda key: scalars.ScalarName("verl.a"))
        assert runtime.flush(5)
        assert dropped() == {(Signal.METRICS, Reason.ENCODING): 1}
        runtime.stop()
    assert [int(one.value) for one in recorded(capture).points if one.metric == "verl.step.snapshot"] == [2]


def test_grpc_on_a_port_that_answers_http_is_said_with_the_remedy(monkeypatch, caplog):
    with HttpSink() as sink, caplog.at_level(logging.WARNING, "verl_otel"):
        point_at(monkeypatch, sink.endpoint, "grpc")
        make_spans(1)
        runtime.flush(4)
    assert len([one for one in caplog.messages if "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in one]) == 1


def test_http_on_a_port_that_speaks_grpc_is_said_with_the_remedy(monkeypatch, caplog):
    with GrpcSink() as sink, caplog.at_level(logging.WARNING, "verl_otel"):
        point_at(monkeypatch, sink.endpoint)
        make_spans(1)
        runtime.flush(4)
    assert len([one for one in caplog.messages if "OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in one]) == 1


def test_flush_keeps_its_deadline_when_the_backend_hangs(monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        point_at(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        make_spans(10)
        start = time.monotonic()
        assert not runtime.flush(1)
        assert time.monotonic() - start < 8  # a request's own time-out is 10


def test_a_hanging_producer_does_not_hold_up_flush_for_longer_than_its_deadline(monkeypatch):
    with HttpSink() as sink:
        point_at(monkeypatch, sink.endpoint)
        runtime.current().pipeline.reader.add_producer(lambda _: time.sleep(30))
        start = time.monotonic()
        assert not runtime.flush(1)
        assert time.monotonic() - start < 15


def test_one_unencodable_span_costs_itself_alone(monkeypatch):
    with HttpSink() as sink:
        point_at(monkeypatch, sink.endpoint, OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none")
        make_spans(2)
        runtime.current().tracer.start_span("bad\ud800name").end()
        assert runtime.flush(5)
        assert sink.spans() == ["span 0", "span 1"]
        assert dropped() == {(Signal.TRACES, Reason.ENCODING): 1}


def test_headers_come_from_the_environment_and_the_file(monkeypatch, tmp_path):
    file = tmp_path / "headers"
    file.write_text("authorization=Bearer t\n")
    with HttpSink() as sink:
        point_at(monkeypatch, sink.endpoint, VERL_OTEL_HEADERS_FILE=str(file), OTEL_EXPORTER_OTLP_HEADERS="x-team=rl")
        make_spans(1)
        assert runtime.flush(5)
    assert {(one["authorization"], one["x-team"]) for one in sink.headers} == {("Bearer t", "rl")}


PROGRAM = """
import sys, time
from verl_otel import runtime
for number in range(int(sys.argv[1])):
    runtime.current().tracer.start_span(f"span {number}").end()
"""


def run_program(endpoint, spans, tmp_path, **environment):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    base = {"PATH": os.environ["PATH"], "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    start = time.monotonic()
    result = subprocess.run(
        [sys.executable, str(file), str(spans)],
        env={**base, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return result, time.monotonic() - start


def test_a_fast_exit_loses_nothing(tmp_path):
    capture = tmp_path / "capture"
    with Recorder(capture) as receiver:
        result, _ = run_program(receiver.endpoint, 2000, tmp_path)
    assert result.returncode == 0
    assert result.stderr == ""
    assert len(recorded(capture).spans) == 2000


def test_with_nothing_listening_the_exit_is_bounded_and_one_line_says_so(tmp_path):
    result, seconds = run_program(f"http://127.0.0.1:{unused_port()}", 5000, tmp_path)
    assert result.returncode == 0
    assert seconds < 12  # imports, and at most VERL_OTEL_FLUSH_TIMEOUT; the SDK's own exporters take 38
    (line,) = result.stderr.strip().splitlines()
    assert "can't be reached" in line


def test_console_exporters_print_json(tmp_path):
    result, _ = run_program(
        "", 2, tmp_path, OTEL_TRACES_EXPORTER="console", OTEL_METRICS_EXPORTER="none", OTEL_LOGS_EXPORTER="none"
    )
    names = [json.loads(line)["name"] for line in result.stdout.splitlines()]
    assert names == ["span 0", "span 1"]


def test_a_forked_child_has_an_identity_and_a_delivery_of_its_own(monkeypatch, tmp_path):
    capture = tmp_path / "capture"
    with Recorder(capture) as receiver:
        point_at(monkeypatch, receiver.endpoint)
        runtime.current().tracer.start_span("parent").end()
        if (child := os.fork()) == 0:
            runtime.current().tracer.start_span("child").end()
            os._exit(0 if runtime.flush(5) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert runtime.flush(5)
        runtime.stop()
    spans = {span.name: span for span in recorded(capture).spans}
    assert set(spans) == {"parent", "child"}
    assert spans["parent"].process != spans["child"].process
    assert spans["child"].resource["process.pid"] == child
