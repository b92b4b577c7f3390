"""The earliest error of a run, apart from the noise of its teardown."""

import asyncio

import pytest

from verl_otel.telemetry import failure, run, steps, workers
from verl_otel.telemetry.failure import Failure
from verl_otel.telemetry.workers import WorkerCall


def end_of(recorded):
    (found,) = (attributes for name, attributes in recorded.events() if name == "verl.run.end")
    return found


def test_the_end_names_the_earliest_error_with_phase_and_what_the_program_ended_in(recorded):
    run.start()
    steps.trainer_started(lambda: 4)
    phase = steps.phase("update_actor")
    phase.fail(RuntimeError("CUDA out of memory"))
    phase.stop()  # a timer stops what it failed
    steps.trainer_finished(RuntimeError("CUDA out of memory"))
    workers.start(WorkerCall("actor", 0, "save")).fail(OSError("the noise of teardown"))
    run.note_outcome(Failure.of(ConnectionError("the queue is gone")))
    run.end()
    end = end_of(recorded)
    assert (end["exception.type"], end["exception.message"]) == ("RuntimeError", "CUDA out of memory")
    assert (end["verl.phase"], end["verl.step"]) == ("update_actor", 4)
    assert (end["verl.run.outcome"], end["verl.run.ended_in"]) == ("failed", "ConnectionError")
    (ended,) = recorded.metrics()["verl.run.ended"]
    assert (ended.attributes, ended.value) == ({"verl.run.outcome": "failed"}, 1)


def test_an_error_that_work_went_on_after_was_not_the_end(recorded):
    run.start()
    workers.start(WorkerCall("actor", 0, "update_actor")).fail(ValueError("caught and tried again"))
    workers.start(WorkerCall("actor", 0, "update_actor")).stop()
    run.note_outcome(Failure.of(KeyError("the end")))
    run.end()
    assert end_of(recorded)["exception.type"] == "KeyError"


def test_of_several_processes_the_earliest_counts():
    theirs = Failure("ValueError", "nan", time=5, where={"verl.rank": 3})
    failure.merge([Failure("ActorDiedError", "rank 3 died", time=9), None, theirs])
    assert failure.first() == theirs


def test_what_a_remote_call_raised_is_told_not_rays_wrapper():
    ray = pytest.importorskip("ray")
    wrapped = ray.exceptions.RayTaskError("f", "trace", ValueError("bad reward"), "title", 1, "127.0.0.1")
    for error in (wrapped, wrapped.as_instanceof_cause()):
        assert (Failure.of(error).kind, Failure.of(error).message) == ("ValueError", "bad reward")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(15)])
def test_an_interrupt_is_no_failure(error, recorded):
    run.start()
    run.note_outcome(Failure.of(error))
    run.end()
    assert end_of(recorded)["verl.run.outcome"] == "interrupted"


def test_a_cancelled_phase_is_noise_and_an_exception_without_text_is_told(recorded):
    class SilentError(Exception):
        def __str__(self):
            raise ValueError

    run.start()
    workers.start(WorkerCall("actor", 0, "update_actor")).fail(asyncio.CancelledError())
    run.note_outcome(Failure.of(SilentError()))
    run.end()
    end = end_of(recorded)
    assert (end["verl.run.outcome"], end["exception.type"], end["exception.message"]) == ("failed", "SilentError", "")


def test_causes_that_go_in_a_circle_end():
    error = ValueError("round")
    error.cause = error
    assert Failure.of(error).message == "round"


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("OutOfMemoryError", "Task was killed due to the node running low on memory.", 1),
        ("ActorDiedError", "The actor died because of memory pressure (OOM).", 1),
        ("ActorDiedError", "The actor died unexpectedly before finishing this task.", 0),
    ],
)
def test_a_process_that_ray_killed_for_memory_is_told_once(recorded, kind, text, told):
    exceptions = pytest.importorskip("ray.exceptions")
    made = getattr(exceptions, kind)
    error = made(text) if kind == "OutOfMemoryError" else made.__new__(made)
    error.error_msg = text
    steps.trainer_started(lambda: 4)
    step, phase = steps.phase("step", is_step=True), steps.phase("update_actor")
    phase.fail(error)
    step.fail(error)
    found = [attributes for name, attributes in recorded.events() if name == "verl.host.oom_kill"]
    assert len(found) == told
    assert all((one["verl.phase"], one["verl.host.oom_killer"]) == ("update_actor", "ray") for one in found)
