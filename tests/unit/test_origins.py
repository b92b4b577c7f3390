"""What a trajectory's tag carries to the trainer, and what the trainer makes of it."""

import asyncio
import math
from types import SimpleNamespace

import pytest
from opentelemetry import trace

from unit.test_trajectories import RESULT, SESSION, run_one
from verl_otel import semconv
from verl_otel.instrumentors import buffers, transfer_queue
from verl_otel.telemetry import batches, origins, rewards, steps
from verl_otel.telemetry.batches import Taken
from verl_otel.telemetry.model_calls import ModelCall
from verl_otel.telemetry.trajectories import Trajectory


@pytest.fixture
def active(monkeypatch):
    monkeypatch.setattr(transfer_queue._own, "active", True)


async def put(keys, fields, tags=None, partition_id="train"):
    return tags


def put_within_a_trajectory(tags):
    trajectory = Trajectory(SESSION)
    trajectory.replica, trajectory.result = "127.0.0.1:81", RESULT
    try:
        return trajectory, asyncio.run(transfer_queue.say_origin(put)(keys=["a"], fields={}, tags=tags))
    finally:
        trajectory.stop()


def test_a_tag_says_trace_replica_and_reward(recorded, active):
    mine = {"status": "success"}
    trajectory, (tag,) = put_within_a_trajectory([mine])
    assert mine == {"status": "success"}, "the caller's own must stay as it is"
    assert tag.keys() == {"status", origins.TAG}
    origin = origins.read(tag[origins.TAG])
    assert origin.trajectory.span_id == trajectory.recording.span.get_span_context().span_id
    assert origin.trajectory.trace_flags.sampled
    assert (origin.server, origin.parts) == ("127.0.0.1:81", {"score": 0.5, "format": 1.0})


def test_elsewhere_tags_stay_as_they_are(recorded, active):
    tags = [{"status": "pending"}]
    assert asyncio.run(transfer_queue.say_origin(put)(["a"], {}, tags=tags)) is tags
    assert put_within_a_trajectory(None)[1] is None
    transfer_queue._own.active = False
    assert put_within_a_trajectory(tags)[1] is tags


@pytest.mark.parametrize("tag", [None, "text", {}, {"traceparent": "nonsense", "server": None}])
def test_a_tag_that_is_not_ours_is_an_empty_origin(tag):
    assert origins.read(tag) == (trace.INVALID_SPAN_CONTEXT, None, {})


def test_a_batchs_span_is_linked_to_its_trajectories_up_to_a_bound(recorded, active):
    trajectory, (tag,) = put_within_a_trajectory([{}])
    origin = origins.read(tag[origins.TAG])
    steps.trainer_started(lambda: 3)
    phase = steps.phase("gen")
    batches.taken([Taken("a", session, 0, origin=origin) for session in range(100)], 3, 1, validation=False)
    batches.taken([Taken("b", 0, 0, origin=origin)], 3, 1, validation=False)
    phase.stop()
    links = recorded.spans["verl.phase.gen"].links
    assert len(links) == batches.MOST_NAMED
    assert {one.context.trace_id for one in links} == {trajectory.recording.span.get_span_context().trace_id}


def test_a_step_tells_the_parts_of_its_rewards(recorded):
    rewards.trained([{"score": 1.0, "format": 0.0}, {"score": 0.0, "format": 0.5}, {"score": math.nan}])
    told = {
        (one.attributes[semconv.REWARD_NAME], one.attributes[semconv.STATISTIC]): one.value
        for one in recorded.metrics()[semconv.REWARD_STEP.name]
    }
    assert told == {
        ("score", "mean"): 0.5,
        ("score", "min"): 0,
        ("score", "max"): 1,
        ("format", "mean"): 0.25,
        ("format", "min"): 0,
        ("format", "max"): 0.5,
    }


def test_a_legacy_batch_has_them_in_columns():
    torch = pytest.importorskip("torch")

    data = SimpleNamespace(
        batch={"token_level_scores": torch.tensor([[0.0, 1.0], [0.0, 0.25]])},
        non_tensor_batch={"acc": [1.0, 0.0], "comment": ["good", "bad"]},
        meta_info={"reward_extra_keys": ["acc", "comment", "absent"]},
    )
    assert buffers.read_parts(data) == [{"score": 1.0, "acc": 1.0}, {"score": 0.25, "acc": 0.0}]
    data.meta_info = {}
    assert buffers.read_parts(data) == []


def test_calls_beyond_a_bound_have_no_spans_but_are_counted(recorded, monkeypatch):
    monkeypatch.setattr("verl_otel.telemetry.trajectories.MOST_CALLS", 2)
    trajectory = Trajectory(SESSION)
    for _ in range(5):
        ModelCall(20).stop()
    trajectory.stop()
    assert recorded.names.count("chat") == 2
    root = recorded.spans["invoke_agent tool_agent"].attributes
    assert (root[semconv.ROLLOUT_MODEL_CALLS], root[semconv.ROLLOUT_CALLS_UNSHOWN]) == (5, 3)
    (calls,) = recorded.metrics()[semconv.INVOKE_AGENT_MODEL_CALLS.name]
    assert calls.sum == 5


def test_a_trajectory_within_the_bound_says_nothing_of_it(recorded):
    run_one()
    assert semconv.ROLLOUT_CALLS_UNSHOWN not in recorded.spans["invoke_agent tool_agent"].attributes
