"""What the trainer asks its rollouts for and gets, and what it can learn from it."""

import time

import pytest

from helpers import with_settings
from verl_otel import semconv
from verl_otel.telemetry import batches, groups, scope, steps
from verl_otel.telemetry.batches import Dispatch, Dispatching, Taken
from verl_otel.telemetry.trajectories import Session, Trajectory


def test_progress_is_told_while_the_trainer_waits(recorded, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(batches, "monotonic", lambda: now[0])
    Dispatching(Dispatch(1, {"a": 4, "b": 4, "c": 4, "d": 4})).stop()
    batches.looked({"pending": 0, "running": 4, "finished": 0, "failed": 0}, validation=False)
    now[0] += 10
    batches.looked({"pending": 1, "running": 1, "finished": 1, "failed": 1}, validation=False)
    points = recorded.metrics()
    assert points[semconv.ROLLOUT_DISPATCHED.name][0].value == 16
    states = {one.attributes["verl.rollout.state"]: one.value for one in points[semconv.ROLLOUT_GROUPS.name]}
    assert states == {"pending": 1, "running": 1, "finished": 1, "failed": 1}
    assert points[semconv.ROLLOUT_RATE.name][0].value == pytest.approx(0.2)
    assert points[semconv.ROLLOUT_TIME_LEFT.name][0].value == pytest.approx(10)


def test_a_batch_names_what_it_was_made_of_and_what_is_missing(recorded):
    Dispatching(Dispatch(3, {"a": 4, "b": 4, "lost": 4})).stop()
    steps.trainer_started(lambda: 3)
    phase = steps.phase("gen")
    taken = [Taken("a", session, 0, oldest=1, newest=2) for session in range(4)] + [Taken("b", 0, 0), Taken("b", 0, 1)]
    batches.taken(taken, 3, 3, validation=False)
    phase.stop()
    gen = recorded.spans["verl.phase.gen"].attributes
    assert gen["verl.rollout.consumed"] == ("a_0_0", "a_1_0", "a_2_0", "a_3_0", "b_0_0", "b_0_1")
    assert gen["verl.rollout.consumed.count"] == 6
    points = recorded.metrics()
    assert points[semconv.ROLLOUT_SHORT.name][0].value == 2  # one lacks three, one has none at all
    assert points[semconv.ROLLOUT_MISSING.name][0].value == 3 + 4
    (staleness,) = points[semconv.ROLLOUT_STALENESS.name]
    assert (staleness.count, staleness.sum) == (4, 4)  # step 3 on weights of version 1: one version late


def test_validation_in_several_batches_names_them_all(recorded):
    steps.trainer_started(lambda: 3)
    phase = steps.phase("testing", validation=True)
    batches.taken([Taken("a", 0, 0)], 3, 1, validation=True)
    batches.taken([Taken("b", 0, 0)], 3, 1, validation=True)
    phase.stop()
    testing = recorded.spans["verl.phase.testing"].attributes
    assert testing["verl.rollout.consumed"] == ("a_0_0", "b_0_0")
    assert testing["verl.rollout.consumed.count"] == 2


def test_when_the_last_trajectory_ended_and_when_the_trainer_noticed(recorded):
    Trajectory(Session("agent")).stop()
    batches.taken([Taken("a", 0, 0)], 1, 1, validation=False)
    points = recorded.metrics()
    (end,), (batch,) = points[semconv.ROLLOUT_LAST_END.name], points[semconv.ROLLOUT_BATCH.name]
    assert 0 <= batch.value - end.value < 1
    assert abs(end.value - time.time()) < 10


def test_progress_starts_again_with_each_batch(recorded, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(batches, "monotonic", lambda: now[0])
    for step in (1, 2):
        Dispatching(Dispatch(step, {f"{step}{name}": 1 for name in "abcd"})).stop()
        now[0] += 10
        batches.looked({"pending": 0, "running": 3, "finished": 1, "failed": 0}, validation=False)
        (rate,) = recorded.metrics()[semconv.ROLLOUT_RATE.name]
        assert rate.value == pytest.approx(0.1)
        batches.looked({"pending": 0, "running": 0, "finished": 4, "failed": 0}, validation=False)
        batches.taken([Taken(f"{step}{name}", 0, 0) for name in "abcd"], step, 4, validation=False)
        states = {
            one.attributes["verl.rollout.state"]: one.value for one in recorded.metrics()[semconv.ROLLOUT_GROUPS.name]
        }
        assert states["finished"] == 0


def test_a_big_batch_names_only_some(recorded):
    steps.trainer_started(lambda: 3)
    phase = steps.phase("gen")
    batches.taken([Taken("a", session, 0) for session in range(1000)], 3, 1, validation=False)
    phase.stop()
    gen = recorded.spans["verl.phase.gen"].attributes
    assert (len(gen["verl.rollout.consumed"]), gen["verl.rollout.consumed.count"]) == (batches.MOST_NAMED, 1000)


def test_what_is_dispatched_knows_the_share_that_is_traced(recorded, monkeypatch):
    with_settings(monkeypatch, rollout_cap=1)
    dispatching = Dispatching(Dispatch(1, {"a": 4}))
    assert 0 < scope.current().share < 1
    dispatching.stop()
    assert scope.current() == scope.Scope()


@pytest.mark.parametrize(
    ("rewards", "signal"),
    [
        ([1, 0], "mixed"),
        ([1, 1, 1], "all_right"),
        ([0, 0], "all_wrong"),
        ([-1, -1], "all_wrong"),
        ([1], None),
        ([float("nan"), 1], None),
    ],
)
def test_what_a_group_can_teach(rewards, signal):
    assert groups.signal(rewards) == signal


def test_shares_of_a_step_are_of_its_groups(recorded):
    groups.trained({"a": [1, 1], "b": [0, 0], "c": [0, 1], "d": [1, 1], "e": [1]})
    points = recorded.metrics()
    shares = {one.attributes["verl.group.signal"]: one.value for one in points[semconv.GROUP_ZERO_VARIANCE.name]}
    assert shares == {"all_right": 0.5, "all_wrong": 0.25}
    counts = {one.attributes["verl.group.signal"]: one.value for one in points[semconv.GROUP_SIGNALS.name]}
    assert counts == {"mixed": 1, "all_right": 2, "all_wrong": 1}
