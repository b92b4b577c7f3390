"""verl's own classes, instrumented, outside a whole run: Tracking, timers, workers, the profiler, random numbers."""

import asyncio
import json
import math
import os
import random
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.verl
pytest.importorskip("verl")

from opentelemetry.trace import StatusCode  # noqa: E402

import verl_otel  # noqa: E402
from otlp_server import HttpSink  # noqa: E402
from verl_otel import runtime, semconv  # noqa: E402
from verl_otel.telemetry import steps  # noqa: E402


@pytest.fixture
def instrumented(recorded):
    verl_otel.instrument()
    yield recorded
    verl_otel.uninstrument()


def test_tracking_logs_as_before_and_every_value_is_a_point(instrumented, tmp_path, monkeypatch, capsys):
    from verl.utils.tracking import Tracking

    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / "log.jsonl"))
    tracking = Tracking("p", "e", ["console", "file"], config={"algorithm": {"adv_estimator": "grpo"}})
    data = {
        "actor/loss": np.float32(0.5),
        "critic/score/mean": math.nan,
        "val-core/a/b/acc/mean@1": 1,
        "perf/x_gb": 2.0,
    }
    assert tracking.log(data=data, step=np.int64(7)) is None
    tracking.log({"training/global_step": 8}, 8, backend=["file"])
    tracking.finish()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert lines[0]["data"]["critic/score/mean"] is None
    first, second = instrumented.snapshots()
    points = {one.attributes["verl.metric.key"]: one for found in first.values() for one in found if one.attributes}
    assert points.keys() == data.keys()
    assert math.isnan(points["critic/score/mean"].value)
    assert points["perf/x_gb"].value == 2 * 1024**3
    assert first["verl.step.snapshot"][0].value == 7
    assert second["verl.step.snapshot"][0].value == 8
    (info,) = instrumented.metrics()["verl.run.info"]
    assert info.attributes["verl.run.algorithm"] == "grpo"


def test_a_logger_that_raises_still_raises_and_the_step_is_closed(instrumented, monkeypatch):
    from verl.utils.tracking import Tracking

    error = RuntimeError("disk full")

    class Broken:
        def log(self, data, step):
            raise error

    tracking = Tracking("p", "e", ["console"])
    tracking.logger["console"] = Broken()
    steps.trainer_started(lambda: 1)
    steps.phase("step", is_step=True).stop()
    with pytest.raises(RuntimeError) as caught:
        tracking.log({"a": 1}, 1)
    assert caught.value is error
    assert instrumented.names == ["verl.phase.step", "verl.step"]
    assert instrumented.snapshots()


def test_every_kind_of_timer_is_a_phase_and_times_as_before(instrumented):
    from verl.utils.debug import marked_timer as from_debug
    from verl.utils.profiler import marked_timer, simple_timer

    steps.trainer_started(lambda: 3)
    timing = {}
    with marked_timer("step", timing, color="red"):
        with from_debug("gen", timing):
            pass
        with simple_timer("adv", timing):
            pass
    steps.logged(3)
    assert set(timing) == {"step", "gen", "adv"}
    assert instrumented.names == ["verl.phase.gen", "verl.phase.adv", "verl.phase.step", "verl.step"]
    for name, seconds in timing.items():
        span = instrumented.spans[f"verl.phase.{name}"]
        assert (span.end_time - span.start_time) / 1e9 == pytest.approx(seconds, abs=0.05)


def test_a_timer_around_an_error_passes_it_on(instrumented):
    from verl.utils.profiler import marked_timer

    steps.trainer_started(lambda: 1)
    error, timing = ValueError("inside"), {}
    with pytest.raises(ValueError, match="inside") as caught, marked_timer("gen", timing):
        raise error
    assert caught.value is error
    assert error.__cause__ is None
    assert timing == {}  # verl's own way
    assert instrumented.spans["verl.phase.gen"].status.status_code is StatusCode.ERROR


@pytest.fixture
def worker(instrumented, monkeypatch):
    """A user's own worker class, made as a rank of a worker group."""
    from verl.single_controller.base.decorator import Dispatch, register
    from verl.single_controller.base.worker import Worker

    class OwnWorker(Worker):
        role = "actor"

        @register(dispatch_mode=Dispatch.ONE_TO_ALL)
        def update(self, value):
            return self.inner(value) + 1

        @register(dispatch_mode=Dispatch.ONE_TO_ALL)
        def inner(self, value):
            return value * 10

        @register(dispatch_mode=Dispatch.ONE_TO_ALL, blocking=False)
        async def sync_weights(self):
            await asyncio.sleep(0)
            return "synced"

        @register(dispatch_mode=Dispatch.ONE_TO_ALL)
        def fail(self):
            raise KeyError("theirs")

        def unregistered(self):
            return 1

    for name, value in {"WORLD_SIZE": "4", "RANK": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    plain = dict(vars(OwnWorker))
    return OwnWorker(), instrumented, OwnWorker, plain


def test_registered_methods_of_a_users_own_worker_have_spans(worker):
    made, recorded, cls, _ = worker
    steps.trainer_started(lambda: 5)
    phase = steps.phase("update_actor")
    assert made.update(3) == 31
    phase.stop()
    assert made.unregistered() == 1
    assert asyncio.run(made.sync_weights()) == "synced"
    assert asyncio.iscoroutinefunction(cls.sync_weights)
    assert [name for name in recorded.names if name.startswith("verl.worker.")] == [
        "verl.worker.update",  # and none for `inner`, which it calls itself
        "verl.worker.sync_weights",
    ]
    span = recorded.spans["verl.worker.update"]
    assert dict(span.attributes) == {
        "verl.role": "actor",
        "verl.rank": 2,
        "verl.worker.method": "update",
        "verl.phase": "update_actor",
        "verl.step": 5,
        "verl.lane": "actor/2",
    }
    (duration,) = (
        one for one in recorded.metrics()["verl.worker.duration"] if one.attributes["verl.worker.method"] == "update"
    )
    assert duration.count == 1


def test_nested_worker_calls_have_spans_if_asked_for(worker, monkeypatch):
    made, recorded, _, _ = worker
    monkeypatch.setattr(
        runtime.current(),
        "settings",
        __import__("dataclasses").replace(runtime.current().settings, nested_worker_spans=True),
    )
    made.update(3)
    assert recorded.names == ["verl.worker.inner", "verl.worker.update"]


def test_a_failing_worker_method_raises_its_own_error(worker):
    made, recorded, _, _ = worker
    with pytest.raises(KeyError, match="theirs"):
        made.fail()
    assert recorded.spans["verl.worker.fail"].status.status_code is StatusCode.ERROR


def test_after_undoing_the_workers_class_is_as_it_was(worker):
    made, recorded, cls, plain = worker
    assert vars(cls)["update"] is not plain["update"]
    bound = made.update
    verl_otel.uninstrument()
    assert all(vars(cls)[name] is plain[name] for name in plain if name not in ("__dict__", "__weakref__"))
    assert bound(3) == 31  # a method someone kept passes calls through
    assert recorded.names == []


def test_the_profiler_profiles_as_before_and_says_so(instrumented, tmp_path):
    from verl.utils.profiler import DistProfiler, ProfilerConfig
    from verl.utils.profiler.config import TorchProfilerToolConfig

    tool = TorchProfilerToolConfig(contents=["cpu"], discrete=False)
    config = ProfilerConfig(tool="torch", enable=True, ranks=[0], save_path=str(tmp_path), tool_config=tool)
    profiler = DistProfiler(rank=0, config=config, tool_config=tool, save_file_prefix="actor")
    other = DistProfiler(rank=1, config=config, tool_config=tool)
    for one in (profiler, other):
        one.start(role="actor", profile_step="2")
        sum(range(1000))
        one.stop()
    assert list(tmp_path.rglob("*.json*")), "the profiler wrote nothing"
    ((name, attributes),) = instrumented.events()
    assert name == semconv.EVENT_PROFILE
    assert attributes["verl.profiler.tool"] == "torch"
    assert attributes["verl.profiler.path"] == str(tmp_path)
    assert (attributes["verl.rank"], attributes["verl.role"]) == (0, "actor")
    assert attributes["verl.profiler.duration"] > 0


def test_a_profiler_that_is_off_says_nothing(instrumented):
    from verl.utils.profiler import DistProfiler

    profiler = DistProfiler(rank=0)
    profiler.start()
    profiler.stop()
    assert instrumented.events() == []


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


def test_a_newer_verl_with_more_parameters_is_not_broken(instrumented):
    """Parameters that we don't know are passed on as they came."""
    from verl_otel.instrumentors import timers, tracking

    calls = []

    def newer_init(self, project_name, experiment_name, default_backend="console", config=None, run_name=None):
        calls.append(run_name)

    def newer_timer(name, timing_raw, category=None):
        calls.append(category)
        yield

    tracking.wrap_init(newer_init)(object(), "p", "e", "console", None, "named")
    assert list(timers.wrap_timer(newer_timer)("gen", {}, category="c")) == [None]
    assert calls == ["named", "c"]
