"""The context over real Ray calls: every kind of method and task, handles that crossed processes, and nothing else."""

import inspect
import subprocess
import sys

import pytest

pytestmark = pytest.mark.verl
ray = pytest.importorskip("ray")

from opentelemetry import trace  # noqa: E402

from recorded import recorded  # noqa: E402
from verl_otel import runtime  # noqa: E402
from verl_otel.ray import carried  # noqa: E402


def here():
    """(trace id, span id) of the current span."""
    context = trace.get_current_span().get_span_context()
    return context.trace_id, context.span_id


class Plain:
    """Actor methods of every kind that Ray runs, each telling which span it runs in."""

    def sync(self, *args, **kwargs):
        return here(), args, kwargs

    def generator(self):
        yield here()
        yield here()

    @ray.method(concurrency_group="io")
    def grouped(self):
        return here()

    @staticmethod
    def static():
        return "static"

    def fail(self):
        raise ValueError("from the actor")

    def ask(self, other):
        return ray.get(other.sync.remote())[0]

    def own_span(self):
        with runtime.current().tracer.start_as_current_span("inner"):
            return here()

    def local_call(self):
        return self.sync(1)[1]


class Async:
    """An async actor."""

    async def coroutine(self, value=1):
        return here(), value

    async def generator(self):
        yield here()
        yield here()


def task(value=None):
    return here(), value


def streaming_task():
    yield here()


@pytest.fixture
def actors(observed_ray):
    running, capture = observed_ray
    # This module can't be imported by workers, as a driver's script can't.
    running.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    remote_plain = running.remote(concurrency_groups={"io": 1})(Plain)
    asynchronous = running.remote(Async).remote()
    yield remote_plain, asynchronous, capture
    running.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_every_kind_of_call_runs_in_the_callers_span(actors):
    remote_plain, asynchronous, capture = actors
    plain = remote_plain.remote()
    tracer = runtime.current().tracer
    with tracer.start_as_current_span("outer") as outer:
        context = outer.get_span_context()
        expected = (context.trace_id, context.span_id)
        assert ray.get(plain.sync.remote(1, key=2)) == (expected, (1,), {"key": 2})
        assert [ray.get(one) for one in plain.generator.options(num_returns="streaming").remote()] == [expected] * 2
        assert ray.get(plain.grouped.remote()) == expected
        assert ray.get(asynchronous.coroutine.remote(value=5)) == (expected, 5)
        assert [ray.get(one) for one in asynchronous.generator.options(num_returns="streaming").remote()] == [
            expected
        ] * 2
        remote_task = ray.remote(task)
        assert ray.get(remote_task.remote(3)) == (expected, 3)
        assert ray.get(remote_task.remote()) == (expected, None)
        assert [ray.get(one) for one in ray.remote(streaming_task).remote()] == [expected]
        # A handle that crossed a process carries on from there.
        assert ray.get(plain.ask.remote(remote_plain.remote())) == expected
        inner = ray.get(plain.own_span.remote())
        assert inner[0] == expected[0]
        assert inner[1] != expected[1]
        # A call inside the actor is the user's own: nothing is added to it.
        assert ray.get(plain.local_call.remote()) == (1,)

    # Outside a span nothing travels, and what was entered was left again.
    nothing = (0, 0)
    assert ray.get(plain.sync.remote()) == (nothing, (), {})
    assert ray.get(asynchronous.coroutine.remote()) == (nothing, 1)
    assert ray.get(ray.remote(task).remote()) == (nothing, None)

    with pytest.raises(ValueError, match="from the actor"):
        ray.get(plain.fail.remote())
    with pytest.raises(TypeError):
        asynchronous.coroutine.remote(unknown=1)

    # The user's own objects are as they were.
    assert carried.KEYWORD not in inspect.signature(Plain.sync).parameters
    assert carried.KEYWORD not in inspect.signature(Async.coroutine).parameters
    assert carried.KEYWORD not in inspect.signature(task).parameters
    assert inspect.isgeneratorfunction(Plain.generator)
    assert not hasattr(Plain.sync, carried.CARRIES)

    ray.shutdown()
    spans = {span.name: span for span in recorded(capture).spans}
    assert spans["inner"].parent == spans["outer"].id
    assert spans["inner"].process != spans["outer"].process
    assert spans["inner"].resource["verl.run.id"] == spans["outer"].resource["verl.run.id"] == "test-run"
    assert spans["inner"].resource["ray.job.id"]
    assert spans["inner"].resource["ray.node.id"]


WITHOUT_THE_PACKAGE = """
import asyncio, pickle, sys
sys.modules["verl_otel"] = None
function, coroutine, setup = pickle.load(sys.stdin.buffer)
assert function(1, _verl_otel_context={"traceparent": "x"}) == 2 and function(1) == 2
assert asyncio.run(coroutine(1, _verl_otel_context={"traceparent": "x"})) == 2
setup()
assert sys.modules["verl_otel"] is None
print("fine")
"""


def plus_one(value):
    return value + 1


async def coroutine_plus_one(value):
    return value + 1


def test_what_travels_works_in_a_process_without_the_package():
    ray.cloudpickle.register_pickle_by_value(carried)
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        travelling = (carried.carrying(plus_one), carried.carrying(coroutine_plus_one), carried.worker_setup(None))
        pickled = ray.cloudpickle.dumps(travelling)
    finally:
        ray.cloudpickle.unregister_pickle_by_value(carried)
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    result = subprocess.run([sys.executable, "-c", WITHOUT_THE_PACKAGE], input=pickled, capture_output=True)
    assert result.stdout == b"fine\n", result.stderr.decode()
