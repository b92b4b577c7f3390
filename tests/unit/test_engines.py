"""An engine's server: its requests, and when its replica was busy."""

import pytest

from verl_otel import runtime, semconv
from verl_otel.telemetry import engines, replicas
from verl_otel.telemetry.engines import EngineRequest, Timing
from verl_otel.telemetry.model_calls import Answer
from verl_otel.telemetry.replicas import Replica
from verl_otel.telemetry.trajectories import Session, Trajectory

SESSION = Session("tool_agent", "uid", 2, step=4)


def test_what_ends_after_everything_was_taken_back_starts_nothing(recorded):
    trajectory, request = Trajectory(SESSION), EngineRequest(1)
    runtime.stop(flush=False)
    request.stop()
    trajectory.stop()
    replicas.cut()
    assert runtime.started() is None


def test_a_request_on_its_way_to_the_gate_is_no_work(recorded):
    replicas.serves(Replica("vllm", rank=0))
    request = EngineRequest(3)
    request.parked()
    assert "verl.replica.busy" not in recorded.names
    request.admitted(0.1)
    request.stop()
    assert recorded.names.count("verl.replica.busy") == 1


def test_an_engine_says_how_long_a_request_was_parked_and_queued(recorded):
    replicas.serves(Replica("vllm", "reward", 0))
    request = EngineRequest(3)
    request.parked()
    states = {
        one.attributes["verl.engine.state"]: one.value for one in recorded.metrics()[semconv.ENGINE_IN_FLIGHT.name]
    }
    assert states == {"parked": 1, "running": 0}
    request.admitted(1.5)
    request.submitted()
    request.timed(Timing(queued=0.25, first_token=0.5, rank=1))
    request.answered(Answer(1))
    request.stop()
    attributes = recorded.spans["verl.engine.generate"].attributes
    assert attributes["verl.lane"] == "reward/0"
    assert attributes["verl.engine.parked.duration"] == 1.5
    assert attributes["verl.engine.queue.duration"] == 0.25
    assert attributes["verl.engine.time_to_first_token"] == pytest.approx(0.5)
    assert attributes["verl.engine.data_parallel_rank"] == 1
    assert engines.current() is None


def test_a_replica_tells_when_it_was_busy_and_how_idle(recorded, monkeypatch):
    replicas.serves(Replica("vllm", rank=0))
    replicas.weights_are(6)
    first, second = EngineRequest(1), EngineRequest(1)
    second.answered(Answer(7))
    second.stop()
    assert "verl.replica.busy" not in recorded.names
    monkeypatch.setattr(replicas, "LONGEST_INTERVAL", 0.0)
    replicas.cut()  # a busy replica is seen while it works
    assert recorded.spans["verl.replica.busy"].attributes["verl.engine.requests"] == 2
    first.stop()
    busy = [one for one in recorded.exporter.get_finished_spans() if one.name == "verl.replica.busy"]
    assert len(busy) == 2
    assert all(one.parent is None and one.attributes["verl.lane"] == "replica/0" for one in busy)
    assert busy[0].attributes["verl.engine.output_tokens"] == 7
    assert busy[1].attributes["verl.weights.version"] == 6
    points = recorded.metrics()
    assert 0 <= points[semconv.REPLICA_IDLE.name][0].value <= 1
    assert points[semconv.REPLICA_WEIGHTS.name][0].value == 6
    assert points[semconv.REPLICA_BUSY_TIME.name][0].value > 0
