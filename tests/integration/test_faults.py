"""Faults placed in our own code, one at a time, under a small run over verl's, Ray's and Hydra's real classes.

The run sees none; each is counted, and logged once a place; what it doesn't hit arrives, and all of it once it is over.
"""

import asyncio
import itertools
import logging
import os
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

pytestmark = pytest.mark.verl
pytest.importorskip("verl")
ray = pytest.importorskip("ray")

from hydra._internal.callbacks import Callbacks  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from ray import remote_function  # noqa: E402
from ray._common.signature import extract_signature  # noqa: E402
from ray.actor import ActorClass, ActorHandle  # noqa: E402
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker  # noqa: E402
from verl.single_controller.base.decorator import Dispatch, register  # noqa: E402
from verl.single_controller.base.worker import Worker  # noqa: E402
from verl.trainer.ppo.ray_trainer import RayPPOTrainer  # noqa: E402
from verl.utils.profiler import DistProfiler, ProfilerConfig, marked_timer  # noqa: E402
from verl.utils.tracking import Tracking  # noqa: E402
from verl.workers.rollout.llm_server import LLMServerClient  # noqa: E402

import verl_otel  # noqa: E402
from otlp_server import HttpSink  # noqa: E402
from verl_otel import runtime  # noqa: E402
from verl_otel.guard import failures  # noqa: E402
from verl_otel.ray import carried, reach  # noqa: E402
from verl_otel.telemetry import hooks, run  # noqa: E402

HERE = __name__
THEIRS = KeyError("theirs")  # raised without its old traceback, which would grow

SPANS = {"verl.step", "verl.phase.step", "verl.phase.gen", "verl.phase.fails", "invoke_agent single", "chat"}
SPANS |= {"verl.worker.update", "verl.worker.fail"}
DURATIONS = {"verl.phase.duration", "verl.worker.duration"}
SNAPSHOTS = {"verl.step.snapshot", "verl.loss", "verl.hooked"}
METRICS = {*DURATIONS, *SNAPSHOTS, "verl.run.info"}
LOGS = {"verl.run.start", "verl.run.end", "verl.profiler.capture", "careful", "Uncaught KeyError"}
ALL = SPANS | METRICS | LOGS
ROLLOUTS = {"invoke_agent single", "chat"}
WORKERS = {"verl.worker.update", "verl.worker.fail", "verl.worker.duration"}

# What raises, and what; the place that it is counted under; what may be missing while it lasts.
FAULTS = (
    ("instrumentors.run_config.read_run", TypeError, "reading the run", {"verl.run.info"}),
    ("instrumentors.run_config.as_mapping", ValueError, "reading the configuration", {"verl.run.info"}),
    ("instrumentors.hydra.resume", PermissionError, "reading the configuration", ()),
    ("instrumentors.tracking.describe", LookupError, "scalar", {"verl.loss", "verl.hooked"}),
    ("instrumentors.trainers._start_trainer", AttributeError, "verl_trainers start_fit", ()),
    ("instrumentors.trainers.read_step", TypeError, "reading the step", ()),
    ("instrumentors.workers.read_role", KeyError, "verl_workers start_call", WORKERS),
    ("instrumentors.workers.wrap_class", ImportError, "wrapping a worker class", WORKERS),
    ("instrumentors.agent_loops.read_session", TypeError, "verl_agent_loops start_session", {"invoke_agent single"}),
    ("instrumentors.model_clients.read_answer", AttributeError, "verl_model_clients finish_call", ()),
    ("instrumentors.profiler.is_profiling", AttributeError, "profiler start", {"verl.profiler.capture"}),
    ("instrumentors.profiler.read_capture", OSError, "profiler stop", {"verl.profiler.capture"}),
    ("telemetry.scalars.log", MemoryError, "queueing scalars", SNAPSHOTS),
    ("telemetry.scalar_store.ScalarStore.snapshot", OverflowError, "snapshot", SNAPSHOTS),
    ("telemetry.scalar_store.ScalarStore.repeated", KeyError, "metric producer", ()),
    ("telemetry.steps.phase", RecursionError, "opening a phase", {*SPANS, "verl.phase.duration"}),
    ("telemetry.steps.phase_done", RuntimeError, "closing a phase", ()),
    ("telemetry.steps.logged", RuntimeError, "closing a step", ()),
    ("telemetry.steps.trainer_finished", RuntimeError, "end of training", ()),
    ("telemetry.sampling.keeps", ZeroDivisionError, "verl_agent_loops start_session", {"invoke_agent single"}),
    ("telemetry.trajectories.count", KeyError, "counting a trajectory", ()),
    ("telemetry.trajectories.Trajectory._outcome", OverflowError, "ending a trajectory", ()),
    ("telemetry.trajectories.Trajectory.stop", OSError, "verl_agent_loops ending start_session", ROLLOUTS),
    ("telemetry.model_calls.ModelCall.__init__", TypeError, "verl_model_clients start_call", {"chat"}),
    ("telemetry.model_calls.ModelCall.stop", LookupError, "verl_model_clients ending start_call", ROLLOUTS),
    ("telemetry.recording.within", RuntimeError, "span verl.phase.gen", ()),
    ("opentelemetry.sdk.trace.Tracer.start_span", ValueError, "span verl.phase.gen", SPANS),
    ("opentelemetry.sdk.trace.Span.end", IndexError, "ending a span", SPANS),
    ("opentelemetry.sdk.trace.Span.record_exception", UnicodeError, "ending a span", ()),
    ("opentelemetry.sdk.metrics._internal.instrument.Histogram.record", OSError, "recording a duration", DURATIONS),
    ("telemetry.failure.note", ReferenceError, "noting a failure", ()),
    ("telemetry.failure.succeeded", RuntimeError, "noting a success", ()),
    ("telemetry.hooks._load", ImportError, "loading the span hook", ()),
    ("span_hook", StopIteration, "span hook", ()),
    ("scalar_hook", KeyError, "scalar hook", {"verl.hooked"}),
    ("telemetry.run.note_outcome", RuntimeError, "noting the outcome", ()),
    ("telemetry.run.end", BufferError, "end of the driver", {"verl.run.end"}),
    ("telemetry.stuck.check", RuntimeError, "watching", ()),
    ("telemetry.events._record", TypeError, "event verl.run.start", LOGS),
    ("telemetry.logs.severity", KeyError, "exporting a log message", {"careful"}),
    ("telemetry.logs.message", AssertionError, "reading a log record", {"careful"}),
    ("telemetry.logs.uncaught", EOFError, "reading an exception", {"Uncaught KeyError"}),
    ("delivery.points.gauge", ZeroDivisionError, "metric producer", {"verl.run.info"}),
    ("delivery.pipeline.counter", OverflowError, "metric producer", ()),
    ("delivery.metrics.GatheringReader.gather", RuntimeError, "gathering", METRICS - SNAPSHOTS),
    ("delivery.handoff.Handoff.put", IndexError, "ending a span", ALL),
    ("delivery.encoding.OtlpEncoder.traces", TypeError, "encoding traces", SPANS),
    ("delivery.encoding.OtlpEncoder.metrics", OverflowError, "encoding metrics", METRICS),
    ("delivery.encoding.OtlpEncoder.logs", UnicodeError, "encoding logs", LOGS),
    ("delivery.core.Core.offer", KeyError, "gathering", ALL),
    ("delivery.core.Core.next", ValueError, "sending", ALL),
    ("delivery.core.Core.settle", LookupError, "sending", ALL),
    ("delivery.http.HttpTransport.__init__", ImportError, "sending traces", ALL),
    ("delivery.http.HttpTransport.send", ConnectionError, "sending traces", ALL),
    ("delivery.diagnosis.Diagnosis.report", TimeoutError, "reporting on delivery", ()),
    ("delivery.pipeline.Pipeline.flush", TimeoutError, "flush", ALL),
    ("settings.Settings.read", ValueError, "queueing scalars", ALL),
    ("sdk.make_resource", OSError, "queueing scalars", ALL),
    ("sdk.read_destinations", TypeError, "queueing scalars", ALL),
    ("ray.reach.reaching", OSError, "runtime_env", ()),
    ("ray.reach._prepare", ImportError, "preparing ray.init", ()),
    ("instrument", ModuleNotFoundError, "worker set-up", ()),
    ("ray.context._carry_methods", TypeError, "actor class", ()),
    ("ray.context._with_keyword", IndexError, "actor method table", ()),
    ("ray.context.carrying", TypeError, "task function", ()),
    ("telemetry.scope.inject", KeyError, "actor call", ()),
    ("telemetry.scope.extract", ValueError, "entering a carried context", ()),
    ("ray.ending.remember", TypeError, "remembering an actor", ()),
    ("ray.ending.flush_run", TimeoutError, "end of training", {"verl.run.end"}),
)


def span_hook(span, name):
    span.set_attribute("hooked", True)


def scalar_hook(values, step):
    return {"hooked": step}


def own_worker():
    """A user's worker, of a class that is new to us."""

    class OwnWorker(Worker):
        @register(dispatch_mode=Dispatch.ONE_TO_ALL)
        def update(self, value):
            return value * 10

        @register(dispatch_mode=Dispatch.ONE_TO_ALL)
        def fail(self):
            raise THEIRS.with_traceback(None)

    return OwnWorker()


_numbers = itertools.count()


def own_actor():
    """A user's actor, of a class that is new to Ray."""
    return ray.remote(type(f"Echo{next(_numbers)}", (), {"echo": lambda self, value: value})).remote()


class Handle:
    """What Ray makes of an actor, but for its process: a call goes through `ActorHandle` and ends here."""

    def __init__(self, created):
        self._actor, self._ray_method_signatures = created.modified_class(), created.method_meta.signatures

    def echo(self, value):
        return ActorHandle._actor_method_call(self, "echo", (value,), None)


def run_method(self, name, args, kwargs):
    return getattr(self._actor, name)(*args, **(kwargs or {}))


def run_task(self, args=None, kwargs=None, **_):
    """As Ray does, up to where it would submit the task."""
    if self._function_signature is None:
        self._function = remote_function._inject_tracing_into_function(self._function)
        self._function_signature = extract_signature(self._function)
    return self._function(*args, **(kwargs or {}))


def get(value):
    if value is THEIRS:
        raise THEIRS.with_traceback(None)
    return value


async def run_agent_loop(self, sampling_params, trajectory, *, agent_name):
    return (await LLMServerClient.generate(self, prompt_ids=[1, 2])).token_ids


async def generate(self, *, prompt_ids):
    return SimpleNamespace(token_ids=[3], stop_reason="stop")


def fit(self, note):
    """Two steps, as the trainers of verl take them."""
    tracking, worker, actor, task = Tracking("p", "e", []), own_worker(), own_actor(), ray.remote(lambda value: value)
    profiler = DistProfiler(rank=0, config=ProfilerConfig(tool=None, enable=True, ranks=[0]))

    def fails():
        with marked_timer("fails", {}):
            raise THEIRS.with_traceback(None)

    for self.global_steps in (1, 2):
        with marked_timer("step", timing := {}):
            profiler.start()
            with marked_timer("gen", timing):
                loop = AgentLoopWorker._run_agent_loop(self, {}, {"step": self.global_steps}, agent_name="single")
                note(asyncio.run, loop)
                note(actor.echo, 5)
                note(task.remote, 6)
            note(worker.update, 7)
            note(worker.fail)
            note(fails)
            profiler.stop()
        note(tracking.log, {"loss": 0.5}, self.global_steps)
    return sorted(timing)


def small_run():
    """What the user's code sees of a run."""
    seen = []

    def note(call, *args, **kwargs):
        try:
            seen.append(call(*args, **kwargs))
        except Exception as error:
            seen.append(error)

    config = OmegaConf.create({"trainer": {"project_name": "p"}, "hydra": {}})
    note(Callbacks().on_job_start, config, task_function=None)
    note(ray.init)
    note(lambda: reach.runtime_env_hook({"env_vars": {"A": "1"}})["env_vars"]["A"])
    note(carried.worker_setup(lambda: seen.append("their set-up")))
    os.environ["VERL_OTEL_ROLE"] = "driver"  # a set-up is a worker's
    note(RayPPOTrainer.__new__(RayPPOTrainer).fit, note)
    note(logging.getLogger("theirs").warning, "careful")
    note(ray.get, 8)
    note(ray.get, THEIRS)
    note(Callbacks().on_job_end, config, job_return=SimpleNamespace(_return_value=THEIRS))
    note(sys.excepthook, KeyError, THEIRS, None)
    note(ray.shutdown)
    note(lambda: isinstance(verl_otel.flush(0.2), bool))
    return seen


STEP = [[3], 5, 6, 70, THEIRS, THEIRS, None]
SEEN = [None, "up", "1", "their set-up", None, *STEP, *STEP, ["gen", "step"], None, 8, THEIRS, None, THEIRS]
SEEN += ["down", True]


@pytest.fixture
def sink(monkeypatch):
    """A backend; all is instrumented, with small bodies where verl and Ray would need a cluster."""
    for owner, name, small in (
        (RayPPOTrainer, "fit", fit),
        (AgentLoopWorker, "_run_agent_loop", run_agent_loop),
        (LLMServerClient, "generate", generate),
        (ActorClass, "_remote", lambda self, **_: Handle(self.__ray_metadata__)),
        (ActorHandle, "_actor_method_call", run_method),
        (remote_function.RemoteFunction, "_remote", run_task),
        (ray, "init", lambda: "up"),
        (ray, "get", get),
        (ray, "shutdown", lambda: "down"),
        (sys, "excepthook", lambda *error: error[1]),
    ):
        monkeypatch.setattr(owner, name, small)
    ours = {"RUN_ID": "r", "LOGS": "true", "FLUSH_TIMEOUT": "0.2", "ROLE": "driver", "SPAN_HOOK": f"{HERE}:span_hook"}
    rank = {"WORLD_SIZE": "1", "RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    with HttpSink() as found:
        otlp = {"OTEL_EXPORTER_OTLP_ENDPOINT": found.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        # Else the texts of messages are withheld, since an agent loop runs in this process.
        otlp["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
        for name, value in {**{f"VERL_OTEL_{one}": ours[one] for one in ours}, **rank, **otlp}.items():
            monkeypatch.setenv(name, value)
        verl_otel.instrument(scalar_hook=lambda *given: scalar_hook(*given))
        yield found
        verl_otel.uninstrument()


def arrived(sink):
    """Names of spans, metrics and events, texts of messages; the places of counted failures as `place:<name>`."""
    any(verl_otel.flush(1) for _ in range(6))  # one that finds the backend slow gives up early
    found = {*sink.spans(), *sink.records()}
    for request in map(ExportMetricsServiceRequest.FromString, sink.bodies("metrics")):
        for metric in (one for scope in request.resource_metrics[0].scope_metrics for one in scope.metrics):
            found.add(metric.name)
            if metric.name == "verl.telemetry.errors":
                found |= {f"place:{point.attributes[0].value.string_value}" for point in metric.sum.data_points}
    return found


def test_without_a_fault_everything_arrives_and_nothing_is_counted(sink):
    assert small_run() == SEEN
    assert ALL - arrived(sink) == set()
    assert failures.counts() == {}


@pytest.mark.parametrize(("path", "error", "place", "costs"), FAULTS, ids=[path for path, *_ in FAULTS])
def test_a_fault_costs_itself_and_is_counted_and_logged_once(sink, monkeypatch, caplog, path, error, place, costs):
    def broken(*_, **__):
        raise error("ours")

    home = HERE if path.endswith("_hook") else "verl_otel"
    runtime.stop(flush=False)  # the fault is there from the start
    with monkeypatch.context() as placed:
        placed.setattr(path if path.startswith("opentelemetry.") else f"{home}.{path}", broken)
        for _ in range(2):
            hooks._found.clear()  # one that can't be loaded isn't tried again
            assert small_run() == SEEN
        assert ALL.difference(costs) - arrived(sink) == set()
    assert failures.counts().get(place, 0) > 1
    said = Counter(one.args[0] for one in caplog.records if one.name == "verl_otel" and one.exc_info)
    # A place that only found nothing started is counted; what failed to start was said where it did.
    assert set(said.values()) == {1}
    # Over. What couldn't start doesn't try again by itself.
    run.reset()
    hooks._found.clear()
    if runtime.started() is None:
        runtime.stop()
    sink.accepted.clear()
    assert small_run() == SEEN
    assert {*ALL, f"place:{place}"} - arrived(sink) == set()


def test_a_log_record_without_a_name_is_handled_as_before(sink, caplog):
    logging.getLogger("theirs").handle(logging.makeLogRecord({"msg": "nameless", "levelno": logging.WARNING}))
    assert caplog.messages == ["nameless"]
    assert "nameless" in arrived(sink)


def test_a_handler_of_theirs_that_raises_is_not_met_in_training(sink, monkeypatch):
    def handle(record):
        raise RuntimeError("theirs, for whatever is logged")

    monkeypatch.setattr(logging.getLogger("verl_otel"), "handlers", [SimpleNamespace(level=0, handle=handle)])
    monkeypatch.setattr("verl_otel.telemetry.scalars.log", None)
    Tracking("p", "e", []).log({"loss": 0.5}, 1)
    assert failures.counts() == {"queueing scalars": 1}


@pytest.mark.parametrize(
    ("module", "call", "result"),
    [
        ("worker", carried.worker_setup(None), None),
        ("context", lambda: carried.carrying(lambda value: value)(1, _verl_otel_context={}), 1),
        ("ending", lambda: carried.watching(lambda value: value)(2), 2),
        ("ending", lambda: carried.flush_actor(None, 0.1), None),
    ],
    ids=["set-up", "context", "wait", "flush"],
)
def test_a_package_that_breaks_at_its_import_in_a_worker_costs_telemetry_alone(monkeypatch, module, call, result):
    """As with a protobuf that generated code is too old for: it raises a `TypeError`."""

    class Breaking:
        def __getattr__(self, name):
            raise TypeError("Descriptors cannot be created directly")

    monkeypatch.setitem(sys.modules, f"verl_otel.ray.{module}", Breaking())
    assert call() == result
