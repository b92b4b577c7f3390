"""What training must not notice: random numbers, providers, pickles and failures are as they would be without us."""

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.verl
pytest.importorskip("verl")

import verl_otel  # noqa: E402
from otlp_server import HttpSink  # noqa: E402
from verl_otel import runtime  # noqa: E402


def random_states():
    import torch

    return random.getstate(), np.random.get_state()[1].tolist(), torch.random.get_rng_state().tolist()


def test_random_states_are_the_same_with_real_exports_failures_and_retries(monkeypatch):
    with HttpSink((503, {}, b""), (400, {}, b""), (200, {}, b"")) as sink:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        verl_otel.instrument()
        random.seed(1)
        np.random.seed(1)
        before = random_states()
        meter = runtime.current().meter
        counter, gauge, histogram = meter.create_counter("c"), meter.create_gauge("g"), meter.create_histogram("h")
        for _ in range(50):
            with runtime.current().tracer.start_as_current_span("sampled"):
                counter.add(1)
                gauge.set(1)
                histogram.record(1)
        assert runtime.flush(10)
        assert len(sink.headers) >= 3  # a retry, a refusal and a success
        assert random_states() == before
    verl_otel.uninstrument()


def test_equal_seeds_do_not_give_equal_ids():
    verl_otel.instrument()
    ids = set()
    for _ in range(2):
        random.seed(7)
        ids.add(runtime.current().tracer.start_span("x").get_span_context().span_id)
    verl_otel.uninstrument()
    assert len(ids) == 2


PROGRAM = """
import random, sys
import verl_otel
verl_otel.instrument()
import verl
{body}
"""


def run_program(body, **environment):
    quiet = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("TRACES", "METRICS", "LOGS")}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)],
        env={**os.environ, **quiet, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_an_application_may_set_its_own_provider_after_us():
    body = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from verl_otel import runtime
runtime.current()
theirs = TracerProvider()
trace.set_tracer_provider(theirs)
assert trace.get_tracer_provider() is theirs
"""
    result = run_program(body)
    assert result.returncode == 0, result.stderr
    assert "Overriding" not in result.stderr


def test_random_numbers_are_protected_whatever_is_disabled():
    body = """
from verl_otel import runtime
random.seed(1)
before = random.getstate()
runtime.current().tracer.start_span("x").end()
assert random.getstate() == before
"""
    result = run_program(body, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="verl_ray")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "broken", [{"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "abc"}, {"OTEL_PYTHON_TRACER_PROVIDER": "nope"}]
)
def test_a_setting_that_breaks_the_sdk_costs_one_try_and_one_message(broken):
    body = """
import threading
from verl.utils.profiler import marked_timer
from verl.utils.tracking import Tracking
from verl_otel.telemetry import steps
steps.trainer_started(lambda: 1)
for _ in range(20):
    with marked_timer("gen", {}):
        pass
Tracking("p", "e", ["console"]).log({"a": 1}, 1)
print(len([one for one in threading.enumerate() if one.name.startswith("verl-otel")]))
"""
    result = run_program(body, **broken)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.splitlines()[-1]) <= 2
    assert result.stderr.count("starting the SDK") <= 1


def test_a_failure_outside_ray_is_the_runs_outcome():
    body = """
from verl.utils.tracking import Tracking
Tracking("p", "e", ["console"])
raise RuntimeError("CUDA out of memory")
"""
    result = run_program(body, OTEL_LOGS_EXPORTER="console")
    assert result.returncode == 1
    assert "RuntimeError: CUDA out of memory" in result.stderr
    (end,) = (line for line in result.stdout.splitlines() if "verl.run.outcome" in line)
    assert json.loads(end)["attributes"]["verl.run.outcome"] == "failed"
    assert json.loads(end)["attributes"]["exception.message"] == "CUDA out of memory"


def test_rays_functions_are_pickled_without_needing_us():
    body = """
import ray, subprocess
functions = ray.cloudpickle.dumps((ray.get, ray.init, ray.shutdown))
load = "import pickle, sys; sys.modules['verl_otel'] = None; print(len(pickle.load(sys.stdin.buffer)))"
loaded = subprocess.run([sys.executable, "-c", load], input=functions, capture_output=True)
assert loaded.stdout == b"3\\n", loaded.stderr.decode()
"""
    result = run_program(body)
    assert result.returncode == 0, result.stderr
