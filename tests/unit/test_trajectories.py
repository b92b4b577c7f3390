"""Trajectories: a trace of its own, linked to what dispatched it, with model calls, tools and rewards in it."""

import asyncio

import pytest
from opentelemetry.trace import StatusCode

from helpers import with_settings
from verl_otel import semconv
from verl_otel.telemetry import replicas, sampling, steps, trajectories
from verl_otel.telemetry.engines import EngineRequest, Timing
from verl_otel.telemetry.model_calls import Answer, ModelCall
from verl_otel.telemetry.replicas import Replica
from verl_otel.telemetry.rewards import RewardCall, Sample
from verl_otel.telemetry.tools import FAILED, INVALID, UNKNOWN, Tool, ToolCall
from verl_otel.telemetry.trajectories import Result, Session, Trajectory

SESSION = Session("tool_agent", "uid", 2, step=4, index=7)
RESULT = Result(1, 4, 20, 30, 25, 0.5, {"format": 1.0}, 3, 4)


ANSWER = Answer(5, 2, "completed", weights=3)


def run_one():
    trajectory = Trajectory(SESSION)
    call = ModelCall(20)
    replicas.serves(Replica("vllm", rank=1))
    request = EngineRequest(20)
    request.submitted()
    request.produced()
    request.timed(Timing())
    request.answered(ANSWER)
    request.stop()
    call.acquired("127.0.0.1:81", 0.25)
    call.answered(ANSWER)
    call.stop()
    trajectory.result = RESULT
    trajectory.stop()
    return trajectory


def test_a_trajectory_is_a_trace_linked_to_its_dispatcher(recorded):
    steps.trainer_started(lambda: 4, read_epoch=lambda: 2)
    phase = steps.phase("step", is_step=True)
    run_one()
    phase.stop()
    steps.logged(4)
    spans = recorded.spans
    root, step = spans["invoke_agent tool_agent"], spans["verl.step"]
    assert root.parent is None
    assert root.links[0].context.span_id == step.context.span_id  # the root, not the phase
    told = dict(root.attributes)
    assert told["verl.epoch"] == step.attributes["verl.epoch"] == 2
    expected = {
        "verl.sample.uid": "uid",
        "verl.sample.index": 7,
        "verl.rollout.session": 2,
        "verl.step": 4,
        "verl.validation": False,
        "verl.rollout.outcome": "finished",
        "verl.rollout.outputs": 1,
        "verl.rollout.turns": 4,
        "verl.rollout.prompt_tokens": 20,
        "verl.rollout.response_tokens": 30,
        "verl.rollout.generated_tokens": 25,
        "verl.rollout.stop_reason": "completed",
        "verl.rollout.model_calls": 1,
        "verl.rollout.tool_calls": 0,
        "verl.weights.oldest": 3,
        "verl.weights.newest": 4,
        "verl.reward": 0.5,
        "verl.reward.part.format": 1.0,
    }
    assert {name: told.get(name) for name in expected} == expected


def test_both_sides_of_a_model_call_are_in_it(recorded):
    run_one()
    spans = recorded.spans
    root, client, server = (spans[name] for name in ("invoke_agent tool_agent", "chat", "verl.engine.generate"))
    assert client.parent.span_id == root.context.span_id
    assert client.attributes["gen_ai.usage.output_tokens"] == 5
    assert (client.attributes["server.address"], client.attributes["server.port"]) == ("127.0.0.1", 81)
    assert client.attributes["verl.balancer.duration"] == 0.25
    assert "verl.balancer.sticky" not in client.attributes
    assert server.parent.span_id == client.context.span_id
    assert server.attributes["verl.engine.output_tokens"] == 5
    assert server.attributes["verl.engine.cached_tokens"] == 2
    assert server.attributes["verl.engine.time_to_first_token"] >= 0
    assert server.attributes["verl.lane"] == "replica/1"
    # Only the client's side has gen_ai usage, so that no backend counts tokens twice.
    assert not [name for name in server.attributes if name.startswith("gen_ai.usage")]


def test_a_second_call_says_whether_it_went_to_the_same_replica(recorded):
    Trajectory(SESSION)
    for address in ("h:1", "h:1", "h:2"):
        call = ModelCall(1)
        call.acquired(address, 0.0)
        call.stop()
    sticky = [one.attributes.get("verl.balancer.sticky") for one in recorded.exporter.get_finished_spans()]
    assert sticky == [None, True, False]


def test_an_aborted_call_that_goes_on_is_a_resumed_one(recorded):
    trajectory = Trajectory(SESSION)
    for answer in (Answer(2, finish_reason="aborted", aborted=True), Answer(3, finish_reason="completed")):
        call = ModelCall(1, resumes=True)
        call.answered(answer)
        call.stop()
    trajectory.stop()
    assert recorded.spans["chat"].attributes["verl.rollout.resumed"] == 1
    assert recorded.spans["invoke_agent tool_agent"].attributes["verl.rollout.resumed"] == 1
    (point,) = recorded.metrics()[semconv.ROLLOUT_RESUMES.name]
    assert point.value == 1


def test_tools_say_how_they_ended(recorded):
    trajectory = Trajectory(SESSION)
    for tool, error in (
        (Tool("search"), None),
        (Tool("search"), ValueError("of the tool")),
        (Tool(None, fault=UNKNOWN), None),
        (Tool("search", fault=INVALID), None),
    ):
        call = ToolCall(tool)
        call.error = error
        call.answered("text", 0.5)
        call.stop()
    call = ToolCall(Tool("search"))
    call.fail(asyncio.CancelledError())
    trajectory.stop()
    spans = [one for one in recorded.exporter.get_finished_spans() if one.name.startswith("execute_tool")]
    outcomes = [one.attributes["verl.tool.outcome"] for one in spans]
    assert outcomes == ["succeeded", FAILED, UNKNOWN, INVALID, "cancelled"]
    assert [one.status.status_code for one in spans] == [StatusCode.UNSET, *[StatusCode.ERROR] * 4]
    assert [one.name for one in spans] == ["execute_tool search"] * 2 + ["execute_tool"] + ["execute_tool search"] * 2
    assert recorded.spans["invoke_agent tool_agent"].attributes["verl.rollout.tool_calls"] == 5
    points = recorded.metrics()[semconv.EXECUTE_TOOL_DURATION.name]
    assert sum(one.count for one in points) == 5


def test_what_a_trajectory_waits_for_is_told(recorded):
    trajectory = Trajectory(SESSION)

    def waits():
        points = recorded.metrics()[semconv.ROLLOUT_RUNNING.name]
        return {one.attributes["verl.rollout.waiting_for"]: one.value for one in points if one.value}

    assert waits() == {"agent": 1}
    call = ModelCall(1)
    assert waits() == {"model": 1}
    balancer = trajectories.Waiting(trajectories.BALANCER)
    assert waits() == {"balancer": 1}
    balancer.over()
    call.stop()
    first, second = ToolCall(Tool("a")), ToolCall(Tool("b"))
    first.stop()
    assert waits() == {"tool": 1}
    second.stop()
    (oldest,) = recorded.metrics()[semconv.ROLLOUT_OLDEST.name]
    assert oldest.attributes["verl.rollout.waiting_for"] == "agent"
    trajectory.stop()
    assert waits() == {}
    assert semconv.ROLLOUT_OLDEST.name not in recorded.metrics()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(ValueError("x"), "failed"), (asyncio.CancelledError(), "cancelled")],
    ids=["error", "cancel"],
)
def test_a_trajectory_that_does_not_finish_says_so(recorded, error, outcome):
    Trajectory(SESSION).fail(error)
    root = recorded.spans["invoke_agent tool_agent"]
    assert root.attributes["verl.rollout.outcome"] == outcome
    assert root.status.status_code is StatusCode.ERROR
    (ended,) = recorded.metrics()[semconv.ROLLOUT_ENDED.name]
    assert (ended.value, ended.attributes["verl.rollout.outcome"]) == (1, outcome)


def test_no_exception_of_a_rollout_says_what_it_says(recorded):
    trajectory = Trajectory(SESSION)
    error = ValueError("SECRET")
    for one in (ModelCall(1), ToolCall(Tool("t")), RewardCall(Sample("f"))):
        one.fail(error)
    trajectory.fail(error)
    spans = recorded.exporter.get_finished_spans()
    assert len(spans) == 4
    assert "SECRET" not in "".join(one.to_json() for one in spans)
    assert {one.events[0].attributes["exception.type"] for one in spans} == {"ValueError"}


def test_a_teachers_call_is_no_turn(recorded):
    trajectory = Trajectory(SESSION)
    call = ModelCall(20, role="teacher")
    call.answered(Answer(1, finish_reason="length"))
    call.stop()
    trajectory.stop()
    root = recorded.spans["invoke_agent tool_agent"].attributes
    assert root["verl.rollout.model_calls"] == 0
    assert "verl.rollout.stop_reason" not in root
    assert recorded.spans["chat"].attributes["verl.role"] == "teacher"


def test_a_sample_of_the_trajectories_is_the_one_the_hash_says(recorded, monkeypatch):
    with_settings(monkeypatch, rollout_ratio=0.5, run_id="run")
    sessions = [Session("a", f"u{number}", 0, step=1) for number in range(50)]
    for session in sessions:
        trajectory = Trajectory(session)
        ModelCall(1).stop()
        trajectory.stop()
    kept = {one.attributes["verl.sample.uid"] for one in recorded.exporter.get_finished_spans() if one.parent is None}
    assert kept == {one.uid for one in sessions if sampling.share("run", 1, one.uid, 0) < 0.5}
    assert 0 < len(kept) < 50
    chats = [one for one in recorded.exporter.get_finished_spans() if one.name == "chat"]
    assert len(chats) == len(kept)  # whole traces, or none
    points = recorded.metrics()
    assert sum(one.count for one in points[semconv.INVOKE_AGENT_DURATION.name]) == 50
    assert sum(one.value for one in points[semconv.ROLLOUT_UNSAMPLED.name]) == 50 - len(kept)


def test_a_failed_trajectory_that_was_not_sampled_shows_its_root(recorded, monkeypatch):
    with_settings(monkeypatch, rollout_ratio=0.0)
    for _ in range(trajectories.MOST_FAILED + 5):
        trajectory = Trajectory(SESSION)
        ModelCall(1).fail(ValueError())
        trajectory.fail(ValueError())
    spans = recorded.exporter.get_finished_spans()
    assert len(spans) == trajectories.MOST_FAILED
    assert {one.attributes["verl.rollout.kept_for"] for one in spans} == {"failed"}


def test_a_cap_keeps_the_smallest_hashes_of_a_step(recorded, monkeypatch):
    with_settings(monkeypatch, rollout_cap=5, run_id="run")
    dispatched = [(f"u{number}", session) for number in range(10) for session in range(4)]
    limit = sampling.bound(3, dispatched, validation=False)
    shares = sorted(sampling.share("run", 3, *one) for one in dispatched)
    assert [one for one in shares if one < limit] == shares[:5]
    assert sampling.bound(3, dispatched, validation=False) == shares[0]  # nothing is left of the step's
    assert sampling.bound(3, dispatched, validation=True) == shares[5]  # validation has its own
    assert sampling.bound(4, dispatched[:3], validation=False) is None
