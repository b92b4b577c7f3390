"""The other doors on a real run, a one-step run, and a run that nobody hears."""

import pytest
from observed import problems, snapshot_of

from verl_otel.telemetry.figures import KEY

pytestmark = pytest.mark.verl

# What is open at a collection depends on when that was.
OPEN = ("verl.phase.open.duration", "verl.rollout.oldest.duration")
APART = (*OPEN, "hw.", "verl.gpu.", "verl.step.gpu.energy", "verl.otel")


def told(run):
    """What a run tells, without counts and times: names of spans, keys of scalars, names of metrics and events."""
    return {
        "spans": {one.name for one in run.capture.spans},
        # One of the runs has GPUs of a stand-in, and gives its figures to verl's loggers.
        "keys": {key for points in snapshot_of(run.capture).values() for key in points if not key.startswith(KEY)},
        "metrics": {one.metric for one in run.capture.points if not one.metric.startswith(APART)},
        "events": {one.name for one in run.capture.events},
        "processes": len({one.process for one in run.capture.spans}),
    }


@pytest.mark.parametrize("door", ["by_plugin", "by_program"])
def test_every_door_tells_the_same_and_a_one_step_run_loses_nothing(demo, door, request):
    run = request.getfixturevalue(door)
    assert run.code == 0, run.output[-3000:]
    assert [step for step, _ in run.log] == [0, 1]
    assert problems(run.capture, run.log) == []
    assert told(run) == told(demo[2])


def test_with_nothing_listening_the_run_ends_as_without_us(unheard, by_plugin):
    assert unheard.code == 0, unheard.output[-3000:]
    assert [step for step, _ in unheard.log] == [0, 1]
    assert unheard.log[1][1].keys() == by_plugin.log[1][1].keys()
    assert unheard.ending < by_plugin.ending + 5


def test_with_nothing_listening_one_line_of_the_driver_says_so(unheard):
    (line,) = (line for line in unheard.output.splitlines() if "can't be reached" in line)
    assert "127.0.0.1:9" in line
    assert "pid=" not in line  # a line of the driver, not one that Ray passed on from a worker
    assert "failed in" not in unheard.output


@pytest.mark.parametrize(
    ("variable", "remedy"), [("VERL_OTEL_FOO", "ignored"), ("OTEL_TRACES_SAMPLER_ARG", "from 0 to 1")]
)
def test_a_wrong_setting_gets_one_line_with_its_remedy(unheard, variable, remedy):
    (line,) = (line for line in unheard.output.splitlines() if f"verl-otel: {variable}" in line)
    assert remedy in line
    assert "pid=" not in line
