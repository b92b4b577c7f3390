"""A real run through `verl-otel stack` into Prometheus and Jaeger; both are away for a minute, the collector is killed.

The run sends to a tap, which keeps what the collector accepted: all of that must be in the stores.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from e2e.asking import panels_without_data, rules_without_data
from e2e.conftest import Observed, observe, wait_for
from e2e.stack import Tap, samples_in, samples_of, scalars_in
from jaeger import Jaeger
from programs import Prometheus, build_collector, build_prometheus, built
from recorded import recorded
from recorder import Recorder
from verl_otel import semconv
from verl_otel.instrumentors.metric_keys import describe

pytestmark = [pytest.mark.verl, pytest.mark.long]

AWAY = 60
"""Seconds."""
NOT_HERE = ("accepted_log_records",)
"""Parts of queries that have no data in this stack: no logs are kept in it."""
VERL_OTEL = Path(sys.executable).with_name("verl-otel")


@dataclass
class Stored:
    """The run, what of it was accepted (`run.capture`), and where it must be; `copies`: spans that Jaeger was given."""

    run: Observed
    run_id: str
    prometheus: Prometheus
    jaeger: Jaeger
    copies: list
    folder: Path


def command(*words, code=0):
    done = subprocess.run([VERL_OTEL, *map(str, words)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def supervisorctl(folder, *words):
    address = f"unix://{folder / 'supervisord.sock'}"
    subprocess.run([sys.executable, "-m", "supervisor.supervisorctl", "-s", address, *words], check=True)


def disturbing(folder, jaeger, figures):
    """What happens to the stack after the run's first step."""

    def logged(running, step):
        path = running.run.metrics
        return path.exists() and f'"step":{step},' in path.read_text().replace(" ", "")

    def disturb(running, _):
        wait_for(lambda: logged(running, 1), "step 1")
        supervisorctl(folder, "stop", "prometheus")
        jaeger.stop()
        time.sleep(AWAY)
        figures["queues, bytes"] = sum(one.stat().st_size for one in (folder / "data" / "collector").iterdir())
        told = command("stack", "status", "--json", "--folder", folder, code=1)
        states = {one["name"]: one for one in json.loads(told)}
        assert [name for name, one in states.items() if not one["is_ready"]] == ["prometheus"]
        supervisorctl(folder, "start", "prometheus")
        jaeger.start()
        os.kill(states["collector"]["pid"], signal.SIGKILL)
        assert running.process.poll() is None, "the run was over before the outage was"

    return disturb


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    base = tmp_path_factory.mktemp("s")
    folder, figures = base / "stack", {}
    with Recorder(base / "copies.otlp") as copies, Jaeger(base / "jaeger", copies.endpoint).running() as jaeger:
        binaries = (
            "--collector",
            built("collector", build_collector),
            "--prometheus",
            built("prometheus", build_prometheus),
        )
        told = json.loads(
            command(
                "stack",
                "up",
                "--json",
                "--folder",
                folder,
                *binaries,
                "--without",
                "grafana",
                "--traces-to",
                jaeger.otlp,
            )
        )
        try:
            with Tap(base / "capture.otlp", told["otlp"]) as tap:
                environment = {
                    "OTEL_EXPORTER_OTLP_ENDPOINT": tap.endpoint,
                    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                    "OTEL_METRIC_EXPORT_INTERVAL": "2000",
                }
                disturb = disturbing(folder, jaeger, figures)
                run = observe(base, "auto", 60, environment, receive=False, meanwhile=disturb)
            run.capture = recorded(base / "capture.otlp")
            print(figures)
            run_id = run.capture.spans[0].resource[semconv.RUN_ID]
            yield Stored(run, run_id, Prometheus(told["prometheus"]), jaeger, copies, folder)
        finally:
            command("stack", "down", "--folder", folder)


def test_the_run_went_through_it(stored):
    assert stored.run.code == 0, stored.run.output[-3000:]
    assert [step for step, _ in stored.run.log if step] == list(range(1, 61))


def test_every_metric_that_was_accepted_is_in_prometheus(stored, record_property):
    accepted = samples_of(stored.run.folder / "capture.otlp")
    assert sum(accepted.values()) > 10_000
    record_property("samples", sum(accepted.values()))
    wait_for(lambda: samples_in(stored.prometheus, stored.run_id) == accepted, "all samples", 60)


def test_every_scalar_of_every_step_is_in_prometheus_as_verl_logged_it(stored, record_property):
    found, compared = scalars_in(stored.prometheus, stored.run_id), 0
    logged = {(step, key): value for step, data in stored.run.log for key, value in data.items()}
    assert found.keys() == logged.keys()
    for (step, key), value in logged.items():
        (stored_value,) = found[step, key]
        expected = float("nan") if value is None else value * describe(key).scale
        assert np.isclose(stored_value, expected, rtol=1e-6, atol=0, equal_nan=True), (step, key)
        compared += 1
    record_property("scalars compared", compared)
    assert compared > 5_000


def test_every_trace_that_was_accepted_is_whole_in_the_trace_store(stored, record_property):
    by_trace = {}
    for span in stored.run.capture.spans:
        by_trace.setdefault(span.trace, {})[span.id] = span
    wait_for(lambda: {one.id for one in read(stored)} >= {one.id for one in stored.run.capture.spans}, "all spans", 60)
    for trace, spans in by_trace.items():
        there = stored.jaeger.trace(trace)
        assert there.keys() == spans.keys()
        for span_id, span in spans.items():
            tags = {one["key"] for one in there[span_id]["tags"]}
            assert there[span_id]["operationName"] == span.name
            assert there[span_id]["startTime"] == span.start // 1000
            assert there[span_id]["duration"] == pytest.approx((span.end - span.start) / 1000, abs=1)
            assert span.attributes.keys() <= tags
            assert not span.parent or span.parent in there
            assert {(one["traceID"], one["spanID"]) for one in there[span_id]["references"]} >= set(span.links)
    record_property("traces", len(by_trace))
    record_property("spans", sum(map(len, by_trace.values())))


def read(stored):
    """The run's spans as Jaeger was given them, each as often as it was."""
    given = recorded(stored.run.folder / "copies.otlp").spans
    return [one for one in given if one.resource.get(semconv.RUN_ID) == stored.run_id]


def test_nothing_that_was_never_sent_is_there_and_duplicates_are_counted(stored, record_property):
    accepted, given = Counter(one.id for one in stored.run.capture.spans), Counter(one.id for one in read(stored))
    assert given.keys() == accepted.keys()
    record_property("spans that were sent to the collector twice", sum(accepted.values()) - len(accepted))
    record_property("spans that the collector sent twice", sum(given.values()) - len(given))


def test_what_the_runs_processes_sent_is_what_was_accepted(stored):
    """Across the collector's end: what it didn't accept they sent again."""
    dropped = stored.prometheus.query(
        f'sum(last_over_time(verl_telemetry_dropped_total{{verl_run_id="{stored.run_id}"}}[1h]))'
    )
    assert [float(one["value"][1]) for one in dropped] in ([], [0.0])
    present = {one.id for one in stored.run.capture.spans}
    assert [one.name for one in stored.run.capture.spans if one.parent and one.parent not in present] == []


def test_every_panels_query_has_data_but_for_those_that_cannot_here(stored):
    assert panels_without_data(stored.prometheus, time.time(), NOT_HERE) == set()


def test_every_rule_is_in_health_and_reads_what_is_there(stored):
    rules = [rule for group in stored.prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert [rule for rule in rules if rule["health"] != "ok"] == []
    assert rules_without_data(stored.prometheus, time.time(), NOT_HERE) == set()


def test_the_doctor_finds_the_way_whole(stored):
    said = json.loads(command("doctor", "--json", "--folder", stored.folder))
    findings = [one for one in said["findings"] if one["link"] == "stack"]
    assert {one["name"] for one in findings if one["state"] == "failed"} == set()
