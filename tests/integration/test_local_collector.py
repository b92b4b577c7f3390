"""OpenTelemetry's own collector in front of the embedded backend: its exporters, and its way of sending again."""

import time

import requests
import yaml

import otlp_made as made
from local_backend import RUN, served
from otlp_made import BEGIN, SECOND
from programs import build_collector, built, free_address, running
from verl_otel import semconv
from verl_otel.local.journal import JournalFullError


def configuration(address, health, backend, how):
    """OTLP over HTTP in, out by one of its exporters with gzip, as is its default."""
    by_http, by_grpc = {"endpoint": backend.url}, {"endpoint": backend.grpc, "tls": {"insecure": True}}
    retry = {"retry_on_failure": {"initial_interval": "100ms", "max_interval": "200ms"}}
    exporter = {"otlp_http": {**by_http, **retry}} if how == "http" else {"otlp_grpc": {**by_grpc, **retry}}
    pipeline = {"receivers": ["otlp"], "exporters": [*exporter]}
    return {
        "extensions": {"health_check": {"endpoint": health}},
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": address}}}},
        "exporters": exporter,
        "service": {
            "extensions": ["health_check"],
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": dict.fromkeys(("traces", "metrics", "logs"), pipeline),
        },
    }


def send(address):
    for signal, request in (
        ("traces", made.traces(RUN, 50)),
        ("metrics", made.snapshot(RUN, 1, {"loss": 0.5, "actor/lr": 1e-6})),
        ("logs", made.event(RUN, semconv.EVENT_RUN_START)),
    ):
        body, kind = request.SerializeToString(), {"Content-Type": "application/x-protobuf"}
        assert requests.post(f"http://{address}/v1/{signal}", body, headers=kind, timeout=10).status_code == 200


def through(how, tmp_path, backend):
    """Have a collector send it on, and wait until it has."""
    address, health = free_address(), free_address()
    (tmp_path / "collector.yaml").write_text(yaml.safe_dump(configuration(address, health, backend, how)))
    command = [str(built("collector", build_collector)), f"--config={tmp_path / 'collector.yaml'}"]
    accept, taken = backend.accept, []

    def counted(signal, body):
        accept(signal, body)
        taken.append(signal)

    backend.accept = counted
    with running(command, tmp_path, f"http://{health}/"):
        send(address)
        deadline = time.monotonic() + 20
        while len(taken) < 3:
            assert time.monotonic() < deadline, taken
            time.sleep(0.05)
    assert backend.rows(RUN, "SELECT count(*), count(DISTINCT span) FROM spans") == [(50, 50)]
    found = backend.rows(RUN, "SELECT step, key, value FROM scalars ORDER BY key")
    assert found == [(1, "actor/lr", 1e-6), (1, "loss", 0.5)]
    assert backend.rows(RUN, "SELECT name FROM events") == [(semconv.EVENT_RUN_START,)]


def test_over_http(tmp_path):
    with served(tmp_path / "backend") as backend:
        through("http", tmp_path, backend)


def test_over_grpc(tmp_path):
    with served(tmp_path / "backend") as backend:
        through("grpc", tmp_path, backend)


def test_what_was_refused_for_now_comes_again(tmp_path):
    with served(tmp_path / "backend") as backend:
        refused = []

        def accept(signal, body):
            if len(refused) < 3:
                refused.append(signal)
                raise JournalFullError("for now", 0)
            backend.store.accept(signal, body)

        backend.accept = accept
        through("http", tmp_path, backend)
        assert len(refused) == 3


def test_a_clock_that_jumps_back_loses_nothing_and_keeps_each_steps_scalars(tmp_path):
    """As after a correction of the host's clock: step 2 is told an hour before step 1."""
    with served(tmp_path / "backend") as backend:
        for step, time in ((1, BEGIN), (2, BEGIN - 3600 * SECOND), (3, BEGIN + SECOND)):
            backend.store.accept("metrics", made.snapshot(RUN, step, {"loss": step / 2}, time).SerializeToString())
        found = backend.rows(RUN, "SELECT step, value FROM scalars ORDER BY step")
        assert found == [(1, 0.5), (2, 1.0), (3, 1.5)]
        assert backend.store.runs.get(RUN)["step"] == 3
