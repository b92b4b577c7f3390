"""Work that is open far longer than it ever was: one event, with every thread's stack."""

import threading

import pytest

from verl_otel.telemetry import recording, steps, stuck, workers
from verl_otel.telemetry.workers import WorkerCall


@pytest.fixture
def clock(monkeypatch):
    """Monotonic seconds that the test moves."""

    class Clock:
        now = 1000.0

    for module in (recording, stuck):
        monkeypatch.setattr(module, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setenv("VERL_OTEL_STUCK_AFTER", "10")


def stuck_events(recorded):
    return [attributes for name, attributes in recorded.events() if name == "verl.phase.stuck"]


def test_a_phase_is_stuck_beyond_three_times_its_longest_once_and_names_its_thread(patient, recorded, clock):
    steps.trainer_started(lambda: 7)
    first = steps.phase("gen")
    clock.now += 20
    first.stop()
    second = steps.phase("gen")
    clock.now += 59
    stuck.check()
    assert stuck_events(recorded) == []
    clock.now += 2
    stuck.check()
    stuck.check()
    (event,) = stuck_events(recorded)
    assert event["verl.phase"] == "gen"
    assert event["verl.step"] == 7
    assert (event["verl.stuck.duration"], event["verl.stuck.longest"]) == (61, 20)
    assert f"Thread {threading.main_thread().name}" in event["verl.stuck.stacks"]
    assert "test_stuck.py" in event["verl.stuck.stacks"]
    second.stop()


def test_what_never_ended_is_given_three_times_the_setting(patient, recorded, clock):
    call = workers.start(WorkerCall("actor", 3, "update_actor"))
    clock.now += 29
    stuck.check()
    assert stuck_events(recorded) == []
    clock.now += 2
    stuck.check()
    (event,) = stuck_events(recorded)
    assert (event["verl.role"], event["verl.rank"], event["verl.worker.method"]) == ("actor", 3, "update_actor")
    assert "verl.stuck.longest" not in event
    call.stop()


def test_only_the_innermost_is_told_of_and_each_time_anew(patient, recorded, clock):
    steps.trainer_started(lambda: 1)
    for _ in range(2):
        outer = steps.phase("step", is_step=True)
        inner = steps.phase("gen")
        clock.now += 400
        stuck.check()
        inner.stop()
        outer.stop()
        steps.phase_done(is_step=True)
        steps.logged(1)
        clock.now += 4000
    assert [one["verl.phase"] for one in stuck_events(recorded)] == ["gen"]  # the second took no longer than the first


@pytest.fixture
def switched_off(monkeypatch):
    monkeypatch.setenv("VERL_OTEL_STUCK_AFTER", "0")


def test_zero_switches_it_off(switched_off, recorded, clock):
    steps.trainer_started(lambda: 1)
    phase = steps.phase("gen")
    clock.now += 10**6
    stuck.check()
    assert stuck_events(recorded) == []
    phase.stop()


def test_work_around_short_work_is_told_of_once(patient, recorded, clock):
    steps.trainer_started(lambda: 1)
    outer = steps.phase("step", is_step=True)
    clock.now += 400
    for _ in range(3):
        stuck.check()
        inner = steps.phase("gen")
        stuck.check()
        inner.stop()
    stuck.check()
    assert [one["verl.phase"] for one in stuck_events(recorded)] == ["step"]
    outer.stop()
