"""A run that is killed at step 12 and resumed from its checkpoint of step 10: one run, two attempts."""

import os
import signal

import pytest
from observed import problems

from e2e.conftest import observe, wait_for
from e2e.test_disturbed_runs import logged
from verl_otel import semconv

pytestmark = [pytest.mark.verl, pytest.mark.long]


@pytest.fixture(scope="module")
def attempts(tmp_path_factory):
    """(killed attempt, resumed attempt), by the same command."""
    folder = tmp_path_factory.mktemp("resumed")
    command = (
        "trainer.save_freq=10",
        "trainer.test_freq=100",
        "trainer.val_before_train=False",
        "trainer.resume_mode=auto",
        f"trainer.default_local_dir={folder}/checkpoints",
    )

    def killed(running, backend):
        wait_for(lambda: logged(running, 12), "step 12", 600)
        for pid in running.processes():
            os.kill(pid, signal.SIGKILL)

    first = observe(folder / "first", "auto", 14, (), command, meanwhile=killed)
    return first, observe(folder / "second", "auto", 14, (), command)


def values(run, attribute):
    return {one.resource.get(attribute) for one in [*run.capture.spans, *run.capture.points]}


def roots(run):
    return sorted(one.attributes.get(semconv.STEP) for one in run.capture.spans if one.name == semconv.SPAN_STEP)


def test_it_is_one_run_with_two_attempts(attempts):
    first, second = attempts
    assert len(values(first, semconv.RUN_ID)) == 1
    assert values(first, semconv.RUN_ID) == values(second, semconv.RUN_ID)
    assert (values(first, semconv.RUN_ATTEMPT), values(second, semconv.RUN_ATTEMPT)) == ({1}, {2})


def test_the_steps_after_the_checkpoint_are_there_twice_and_told_apart(attempts):
    first, second = attempts
    assert set(range(1, 12)) <= set(roots(first))
    assert roots(second) == [11, 12, 13, 14]
    (resumed,) = (one for one in second.capture.events if one.name == semconv.EVENT_RUN_RESUME)
    assert resumed.attributes[semconv.RUN_RESUMED_STEP] == 10
    infos = [one for one in second.capture.points if one.metric == semconv.RUN_INFO.name]
    assert 10 in {one.attributes.get(semconv.RUN_RESUMED_STEP) for one in infos}


def test_the_killed_attempt_has_no_end_and_the_resumed_one_is_whole(attempts):
    first, second = attempts
    names = [one.name for one in first.capture.events]
    assert semconv.EVENT_RUN_START in names
    assert semconv.EVENT_RUN_END not in names
    assert second.code == 0, second.output[-3000:]
    assert [one for one in problems(second.capture, second.log) if "verl.validate" not in one] == []


def test_the_killed_attempt_lost_its_last_second_alone(attempts, record_property):
    first, _ = attempts
    steps = [int(one.value) for one in first.capture.points if one.metric == semconv.STEP_SNAPSHOT.name]
    logged_steps = [step for step, _ in first.log]
    assert set(logged_steps[:-1]) <= set(steps)
    record_property("steps logged", len(logged_steps))
    record_property("steps told", len(set(steps)))
