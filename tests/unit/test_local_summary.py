"""What the list shows of a run: how it is, whatever of its events came, and in whichever order."""

import itertools
import json
import time

import pytest

from verl_otel import semconv
from verl_otel.local.store.catalog import Process
from verl_otel.local.store.rows import RunEvent
from verl_otel.local.store.summary import SILENCE, Summary

NOW = time.time_ns()
SECOND = 1_000_000_000


def event(name, at=0, attempt=1, **attributes):
    process = Process(1, "p", {semconv.RUN_ATTEMPT: attempt, "host.name": "node-0"})
    return RunEvent(name, NOW + at * SECOND, process, attributes)


def started(at=0, attempt=1, config=None):
    more = {semconv.RUN_CONFIG: config} if config is not None else {}
    return event(semconv.EVENT_RUN_START, at, attempt, **{semconv.RUN_MODEL: "qwen", **more})


def ended(outcome, at=1, attempt=1):
    return event(semconv.EVENT_RUN_END, at, attempt, **{semconv.RUN_OUTCOME: outcome})


def summary(*events):
    found = Summary("run")
    found.saw(NOW, NOW)
    for one in events:
        found.attempted(one.process.attempt)
        found.told(one)
    return found


@pytest.mark.parametrize("outcome", ["finished", "failed", "interrupted"])
def test_an_end_says_how_it_ended(outcome):
    shown = summary(started(), ended(outcome)).shown(NOW / 1e9 + 10 * SILENCE)
    assert (shown["status"], shown["ended"]) == (outcome, (NOW + SECOND) / 1e6)


def test_without_an_end_a_silent_run_has_vanished():
    found = summary(started())
    assert found.shown(found.heard / 1e9 + SILENCE - 1)["status"] == "running"
    assert found.shown(found.heard / 1e9 + SILENCE + 1)["status"] == "vanished"


def test_a_resumed_run_runs_again_and_the_end_of_an_older_attempt_doesnt_count():
    found = summary(started(), ended("failed"), started(5, 2))
    assert (found.status, found.ended, found.attempt) == ("running", None, 2)
    found.told(ended("interrupted", 6, 1))
    assert found.status == "running"
    found.told(ended("finished", 7, 2))
    assert found.status == "finished"
    assert found.shown(0)["started"] == NOW / 1e6


def test_an_end_that_comes_before_its_start_counts():
    assert summary(ended("finished", 2), started(0)).status == "finished"


@pytest.mark.parametrize(
    ("config", "total"),
    [
        ({"trainer": {"total_training_steps": 60}}, 60),
        (
            {
                "trainer": {"total_training_steps": None},
                "actor_rollout_ref": {"actor": {"optim": {"total_training_steps": 9}}},
            },
            9,
        ),
        ({"trainer": {"total_training_steps": -1}}, None),
        ({"trainer": 5}, None),
        ([], None),
    ],
)
def test_total_steps_are_those_of_the_configuration(config, total):
    assert summary(started(config=json.dumps(config))).total_steps == total


def test_a_configuration_that_was_cut_still_says_how_many():
    assert summary(started(config='{"trainer": {"total_training_steps": 12, "x": "cu')).total_steps == 12


def test_the_sparkline_is_even_however_long_the_run():
    found = Summary("run")
    for step in range(1, 5001):
        found.logged(step, "critic/score/mean", step / 10)
    [*points] = found.shown(0)["reward"]["points"]
    assert len(points) <= 60
    assert points[-1] == [5000, 500.0]
    gaps = {later[0] - earlier[0] for earlier, later in itertools.pairwise(points)}
    assert max(gaps) <= 2 * 5000 / len(points)
    assert len(found.to_json()) < 10_000


def test_rewards_that_are_no_numbers_are_left_out():
    found = Summary("run")
    found.logged(1, "critic/rewards/mean", float("nan"))
    assert found.shown(0)["reward"] is None
    assert found.step == 1


def test_it_is_the_same_after_it_was_stored():
    found = summary(started(), ended("failed"))
    found.logged(3, "critic/score/mean", 0.5)
    again = Summary.from_json(found.to_json())
    assert again == found
    for broken in ("", "{", "[]", '{"id": "x", "rewards": 5}', "{}"):
        with pytest.raises((ValueError, AttributeError)):
            Summary.from_json(broken)
