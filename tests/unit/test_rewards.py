"""Reward calls: with their parts, shown while they last, counted when they fail."""

from verl_otel import semconv
from verl_otel.telemetry import failure, rewards, steps
from verl_otel.telemetry.rewards import Reward, RewardCall, Sample


def test_a_reward_is_measured_in_its_parts(recorded):
    call = RewardCall(Sample("compute_score", "uid", 1, "gsm8k"))
    call.requested()
    call.given(Reward(0.5, rewards.numeric({"format": True, "note": "text", "acc": 1})))
    call.stop()
    span = recorded.spans["verl.reward"]
    assert span.attributes["verl.reward.function"] == "compute_score"
    assert span.attributes["verl.sample.uid"] == "uid"
    assert span.attributes["gen_ai.evaluation.score.value"] == 0.5
    assert span.attributes["verl.reward.requests"] == 1
    points = recorded.metrics()[semconv.REWARD_VALUE.name]
    assert {one.attributes["verl.reward.name"]: one.sum for one in points} == {"score": 0.5, "format": 1, "acc": 1}


def test_open_calls_that_are_alike_are_one_point(recorded):
    calls = [RewardCall(Sample("compute_score", f"uid{number}", 1)) for number in range(3)]
    assert len(recorded.metrics()[semconv.OPEN_DURATION.name]) == 1
    for call in reversed(calls):
        call.stop()


def test_a_reward_that_raises_is_counted_by_its_error_and_is_not_the_runs_end(recorded):
    call = RewardCall(Sample("compute_score"))
    call.fail(ValueError())
    (point,) = recorded.metrics()[semconv.REWARD_DURATION.name]
    assert point.attributes["error.type"] == "ValueError"
    assert failure.first() is None


def test_rewards_of_a_whole_batch_are_shown_to_a_bound(recorded):
    steps.trainer_started(lambda: 3)
    phase = steps.phase("reward")
    for _ in range(rewards.MOST_OF_A_PHASE + 10):
        RewardCall(Sample("model")).stop()
    phase.stop()
    assert recorded.names.count("verl.reward") == rewards.MOST_OF_A_PHASE
    assert recorded.metrics()[semconv.REWARD_DURATION.name][0].count == rewards.MOST_OF_A_PHASE + 10


def test_only_numbers_are_parts_of_a_reward():
    import numpy as np

    fields = {"a": 1, "b": np.float32(2), "c": np.str_("text"), "d": None, "e": [1], "f": True, "g": np.array(3)}
    assert rewards.numeric(fields) == {"a": 1, "b": 2, "f": 1, "g": 3}


def test_an_open_reward_call_is_shown(recorded):
    call = RewardCall(Sample("compute_score", "uid", 1))
    (point,) = recorded.metrics()[semconv.OPEN_DURATION.name]
    assert point.attributes["verl.reward.function"] == "compute_score"
    call.stop()
