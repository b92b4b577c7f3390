"""Real runs that go wrong: workers killed, a hang, Ctrl-C, a broken reward, an outage: what is told, what is lost."""

import os
import signal
import socket
import time
from collections import Counter

import pytest
from observed import lost, problems

from e2e.backends import arrived, serving
from e2e.conftest import observe, wait_for
from e2e.rollouts import total, trajectories
from e2e.trainers import reward
from verl_otel import semconv

pytestmark = pytest.mark.verl


def logged(running, step):
    """Whether verl's own log has come to a step."""
    path = running.run.metrics
    return path.exists() and any(f'"step":{step},' in line.replace(" ", "") for line in path.read_text().splitlines())


def kill(running, title):
    """SIGKILL the Ray process of that title; returns when, in ns since the epoch."""
    (pid,) = running.named(title)
    os.kill(pid, signal.SIGKILL)
    return time.time_ns()


def end_of(run):
    return [one.attributes for one in run.capture.events if one.name == semconv.EVENT_RUN_END]


@pytest.fixture(scope="module")
def worker_killed(tmp_path_factory):
    """(run, when): the training worker is killed after the first step."""
    when = []

    def disturb(running, backend):
        wait_for(lambda: logged(running, 1), "step 1")
        time.sleep(1.2)  # what ended a second ago must have left
        when.append(kill(running, "ray::WorkerDict"))

    return observe(tmp_path_factory.mktemp("killed"), "auto", 30, meanwhile=disturb), when[0]


def test_a_killed_workers_error_is_verls_own_and_the_end_names_it(worker_killed):
    run, _ = worker_killed
    assert run.code != 0
    assert "ActorDiedError" in run.output
    assert "failed in" not in run.output  # nothing of ours stumbled over it
    (end,) = end_of(run)
    assert end[semconv.RUN_OUTCOME] == "failed"
    assert end["exception.type"] == "ActorDiedError"
    assert end[semconv.PHASE] in {"old_log_prob", "update_actor", "update_weights", "gen"}
    assert end[semconv.STEP] >= 2


def test_a_killed_worker_loses_its_last_second_and_nothing_else(worker_killed, record_property):
    run, when = worker_killed
    spans = run.capture.spans
    present = {one.id for one in spans}
    orphans = [one for one in spans if one.parent and one.parent not in present]
    # Only what was open in the killed process is missing as a parent: calls it made, or was in the middle of.
    assert all(one.end > when - 2e9 for one in orphans)
    calls = [one for one in spans if one.name.startswith(semconv.SPAN_WORKER)]
    killed = {one.process for one in calls}
    told = {one.name for one in calls if one.attributes.get(semconv.STEP) == 1}
    assert {"verl.worker.compute_log_prob", "verl.worker.update_actor", "verl.worker.update_weights"} <= told
    others = {
        process: sum(series.values())
        for process, series in run.capture.last(semconv.EXPORTED["traces"].name).items()
        if process not in killed
    }
    here = {process: sum(1 for one in spans if one.process == process) for process in others}
    assert all(here[process] >= count for process, count in others.items())
    first = [one for one in spans if one.name == semconv.SPAN_STEP and one.attributes.get(semconv.STEP) == 1]
    assert len(first) == 1
    record_property("orphans", len(orphans))


@pytest.fixture(scope="module")
def hung(tmp_path_factory):
    """An agent-loop worker is killed with trajectories in flight: verl itself waits for ever. Ctrl-C ends it."""

    def disturb(running, backend):
        wait_for(lambda: logged(running, 1), "step 1")
        time.sleep(1)  # the next step's prompts are with the worker, whose rewards take 2 s
        kill(running, "ray::AgentLoopWorker")
        wait_for(lambda: told_of_stuck(running), "verl.phase.stuck", 120)
        running.process.send_signal(signal.SIGINT)

    settings = {"VERL_OTEL_STUCK_AFTER": "10", "OTEL_METRIC_EXPORT_INTERVAL": "2000"}
    return observe(tmp_path_factory.mktemp("hung"), "auto", 30, settings, reward("slow"), meanwhile=disturb)


def told_of_stuck(running):
    capture = arrived(running.run.logs)
    return any(one.name == semconv.EVENT_STUCK for one in capture.events)


@pytest.mark.long
def test_a_hang_of_verls_is_told_by_the_open_phase_and_one_event_with_stacks(hung):
    (event,) = (one.attributes for one in hung.capture.events if one.name == semconv.EVENT_STUCK)
    assert event[semconv.PHASE] == "gen"
    assert event[semconv.STEP] >= 2
    assert event[semconv.STUCK_SECONDS] > 3 * event[semconv.STUCK_LONGEST]
    assert "replay_buffer.py" in event[semconv.STUCK_STACKS]
    opened = [one for one in hung.capture.points if one.metric == semconv.OPEN_DURATION.name]
    assert max(one.value for one in opened if one.attributes.get(semconv.PHASE) == "gen") > 10


@pytest.mark.long
def test_ctrl_c_ends_it_as_an_interrupt_and_loses_nothing_of_the_living(hung):
    assert hung.code != 0
    (end,) = end_of(hung)
    assert end[semconv.RUN_OUTCOME] == "interrupted"
    # Trajectories of the killed worker alone are missing as parents.
    present = {one.id for one in hung.capture.spans}
    orphans = {one.name for one in hung.capture.spans if one.parent and one.parent not in present}
    inner = {"chat", semconv.SPAN_GENERATE_SERVER, semconv.SPAN_REWARD}
    assert {one for one in orphans - inner if not one.startswith(semconv.SPAN_QUEUE)} == set()


@pytest.fixture(scope="module")
def outage(tmp_path_factory):
    """The backend is away for 60 s in mid-run."""
    folder = tmp_path_factory.mktemp("outage")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def disturb(running, backend):
        with serving(folder, port):
            wait_for(lambda: logged(running, 1), "step 1")
        time.sleep(60)
        assert running.process.poll() is None, "the run was over before the outage was"
        with serving(folder, port):
            running.process.wait(600)

    endpoint = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    run = observe(folder, "auto", 40, endpoint, receive=False, meanwhile=disturb)
    run.capture = arrived(folder)
    return run


@pytest.mark.long
def test_an_outage_of_a_minute_loses_nothing(outage, record_property):
    assert outage.code == 0, outage.output[-3000:]
    assert problems(outage.capture, outage.log) == []
    assert "telemetry is kept" in outage.output
    assert "answers again" in outage.output
    record_property("snapshots", len(outage.log))
    record_property("lost", lost(outage.capture))


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A reward function raises."""
    return observe(tmp_path_factory.mktemp("broken"), "auto", 2, (), reward("broken"), complete=False)


@pytest.mark.long
def test_a_run_that_fails_ends_as_failed_with_verls_error(broken):
    assert broken.code != 0
    (end,) = end_of(broken)
    assert end[semconv.RUN_OUTCOME] == "failed"
    assert end["exception.type"] in broken.output
    assert "failed in" not in broken.output


@pytest.fixture(scope="module")
def terminated(tmp_path_factory):
    """The driver gets SIGTERM after the first step."""

    def disturb(running, backend):
        wait_for(lambda: logged(running, 1), "step 1")
        running.process.send_signal(signal.SIGTERM)

    return observe(tmp_path_factory.mktemp("terminated"), "auto", 30, meanwhile=disturb)


@pytest.mark.long
def test_sigterm_loses_nothing_that_was_finished(terminated):
    assert terminated.code != 0
    steps = {one.attributes.get(semconv.STEP) for one in terminated.capture.spans if one.name == semconv.SPAN_STEP}
    assert {step for step, _ in terminated.log if step} <= steps
    ends = end_of(terminated)
    assert [one[semconv.RUN_OUTCOME] for one in ends] in ([], ["interrupted"])


def served(running):
    """Training requests that the engine's server has told of."""
    capture = arrived(running.run.logs)
    return sum(one.name == semconv.SPAN_GENERATE_SERVER and one.attributes[semconv.STEP] == 1 for one in capture.spans)


@pytest.fixture(scope="module")
def server_killed(tmp_path_factory):
    """The engine's server is killed when it has answered at least 6 of a step's 16 requests, four at a time."""
    few = (
        "actor_rollout_ref.rollout.max_num_seqs=4",
        "data.max_response_length=384",
        "actor_rollout_ref.rollout.max_model_len=512",
        "trainer.val_before_train=False",
    )

    def disturb(running, backend):
        wait_for(lambda: served(running) >= 6, "six answers")
        kill(running, "ray::vLLMHttpServer")

    return observe(tmp_path_factory.mktemp("server"), "auto", 3, (), few, meanwhile=disturb, complete=False)


@pytest.mark.long
def test_a_killed_server_fails_its_trajectories_and_they_say_so(server_killed, record_property):
    assert server_killed.code != 0
    assert "failed in" not in server_killed.output  # nothing of ours stumbled over it
    mine = [one for one in trajectories(server_killed.capture) if one[semconv.STEP] == 1]
    outcomes = Counter(one[semconv.ROLLOUT_OUTCOME] for one in mine)
    record_property("outcomes", dict(outcomes))
    assert sum(outcomes.values()) == 16
    assert 6 <= outcomes["finished"] < 16
    for one in mine:
        if one[semconv.ROLLOUT_OUTCOME] == "failed":
            assert one.root.error
            assert all(call.error for call in one.of(semconv.SPAN_GENERATE_CLIENT))
    assert total(server_killed.capture, semconv.ROLLOUT_ENDED, verl_rollout_outcome="failed") >= outcomes["failed"]
    present = {one.id for one in server_killed.capture.spans}
    assert [one.name for one in server_killed.capture.spans if one.parent and one.parent not in present] == []
