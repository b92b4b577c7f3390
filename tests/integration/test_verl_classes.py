"""verl's own classes, instrumented, outside a whole run: Tracking, timers, workers, the profiler, random numbers."""

import asyncio
import json
import math

import numpy as np
import pytest

pytestmark = pytest.mark.verl
pytest.importorskip("verl")

from opentelemetry.trace import StatusCode  # noqa: E402

import verl_otel  # noqa: E402
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
        assert (span.end_time - span.start_time) / 1e9 == pytest.approx(seconds, abs=0.2)


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
