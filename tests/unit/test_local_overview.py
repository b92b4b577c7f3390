"""Is it alive, how far, what failed first, and what to change."""

import math

import pytest

from local_rows import Rows, at, ms
from verl_otel import semconv
from verl_otel.local.queries.advice import advice
from verl_otel.local.queries.failure import failure, last_good_step
from verl_otel.local.queries.overview import health, overview
from verl_otel.local.queries.phases import open_phases
from verl_otel.local.queries.progress import progress

RUN = {"id": "r", "status": "running", "updated": ms(1000), "rev": 3}


@pytest.fixture
def rows():
    made = Rows()
    made.process(1, host="a", last=1000)
    return made


def alive(rows, second, process=1):
    rows.points(semconv.TELEMETRY_QUEUE.name, [(second, 0)], process=process)


def opened(rows, second, seconds, *, process=1, **labels):
    named = {"phase": semconv.PHASE, "role": semconv.ROLE, "rank": semconv.RANK, "method": semconv.WORKER_METHOD}
    rows.points(
        semconv.OPEN_DURATION.name,
        [(second, seconds)],
        {named[key]: value for key, value in labels.items()},
        process=process,
    )


def test_a_phase_is_open_while_its_process_says_so_and_goes_on_until_now(rows):
    for place in range(10):
        rows.span("verl.phase.gen", place * 10, place * 10 + place + 1, phase="gen")
    alive(rows, 990)
    opened(rows, 980, 3.0, phase="adv")  # closed since: its process told again, and not of it
    opened(rows, 990, 30.0, phase="gen")
    (found,) = open_phases(rows.cursor(), at(1000))
    assert found == {
        "name": "gen",
        "role": None,
        "rank": None,
        "open_s": 40.0,
        "median_s": 5.5,
        "p95_s": pytest.approx(9.55),
        "stuck": False,
    }


def test_of_many_ranks_in_one_call_the_one_that_is_longest_in_it_is_told(rows):
    alive(rows, 990)
    for rank in range(3):
        opened(rows, 990, 10.0 + rank, method="update_actor", role="actor", rank=rank)
    (found,) = open_phases(rows.cursor(), at(990))
    assert (found["name"], found["role"], found["rank"], found["open_s"]) == ("update_actor", "actor", 2, 12.0)


def test_a_phase_is_stuck_by_its_own_past_or_by_its_event(rows):
    alive(rows, 990)
    rows.span("verl.phase.gen", 0, 100, phase="gen")
    rows.span("verl.phase.ref", 0, 900, phase="ref")
    opened(rows, 990, 700.0, phase="gen")
    opened(rows, 990, 700.0, phase="ref")
    opened(rows, 990, 70.0, phase="adv")
    rows.event(semconv.EVENT_STUCK, 980, {semconv.PHASE: "adv"})
    found = {one["name"]: one["stuck"] for one in open_phases(rows.cursor(), at(990))}
    assert found == {"gen": True, "ref": False, "adv": True}


def test_progress_is_in_groups_where_the_trainer_has_a_buffer(rows):
    for state, count in {"pending": 10, "running": 4, "finished": 17, "failed": 1}.items():
        rows.points(
            semconv.ROLLOUT_GROUPS.name, [(990, count)], {semconv.VALIDATION: False, semconv.ROLLOUT_STATE: state}
        )
    rows.points(semconv.ROLLOUT_RATE.name, [(990, 0.5)], {semconv.VALIDATION: False})
    rows.points(semconv.ROLLOUT_TIME_LEFT.name, [(990, 28)], {semconv.VALIDATION: False})
    rows.points(semconv.ROLLOUT_RUNNING.name, [(990, 8)], {semconv.VALIDATION: False})
    for seconds, waits in ((5.0, "model"), (9.0, "tool")):
        rows.points(
            semconv.ROLLOUT_OLDEST.name,
            [(990, seconds)],
            {semconv.VALIDATION: False, semconv.ROLLOUT_WAITING_FOR: waits},
        )
    assert progress(rows.cursor(), at(995)) == {
        "validation": False,
        "expected": 32,
        "pending": 10,
        "running": 4,
        "done": 17,
        "failed": 1,
        "rate": 0.5,
        "left_s": 28,
        "oldest_s": 9.0,
        "waits_for": "tool",
    }


def test_else_in_trajectories_since_the_last_batch(rows):
    training = {semconv.VALIDATION: False}
    rows.points(semconv.ROLLOUT_RUNNING.name, [(990, 3)], training)
    rows.points(semconv.ROLLOUT_BATCH.name, [(990, at(500) / 1e9)], training)
    rows.counter(semconv.ROLLOUT_DISPATCHED.name, [(490, 16), (510, 32)], training)
    rows.counter(semconv.ROLLOUT_ENDED.name, [(490, 16), (990, 26)], training | {semconv.ROLLOUT_OUTCOME: "finished"})
    rows.counter(semconv.ROLLOUT_ENDED.name, [(490, 0), (990, 1)], training | {semconv.ROLLOUT_OUTCOME: "failed"})
    found = progress(rows.cursor(), at(995))
    assert {key: found[key] for key in ("expected", "pending", "running", "done", "failed")} == {
        "expected": 16,
        "pending": 2,
        "running": 3,
        "done": 10,
        "failed": 1,
    }


def test_no_rollout_no_progress(rows):
    rows.points(semconv.ROLLOUT_GROUPS.name, [(990, 0)], {semconv.VALIDATION: False, semconv.ROLLOUT_STATE: "pending"})
    assert progress(rows.cursor(), at(995)) is None


def test_a_failure_is_the_first_error_after_the_last_good_step(rows):
    rows.process(2, host="node-7")
    rows.span("verl.phase.gen", 0, 5, phase="gen", step=1, error=True, message="Overcome: it")
    rows.span("verl.step", 0, 10, step=1)
    rows.span(
        "verl.worker.update_actor", 12, 14, trace="x", span="w", step=2, phase="update_actor", role="actor", rank=3,
        process=2, error=True, message="OutOfMemoryError: CUDA", error__type="OutOfMemoryError",
    )  # fmt: skip
    rows.span("verl.phase.update_actor", 11, 15, step=2, phase="update_actor", error=True, message="RayTaskError: x")
    told = {semconv.RUN_OUTCOME: "failed", "exception.type": "OutOfMemoryError", "exception.message": "CUDA: <b>"}
    rows.event(semconv.EVENT_RUN_END, 20, {**told, semconv.RANK: 3, semconv.STEP: 2})
    assert failure(rows.cursor()) == {
        "time": ms(14),
        "type": "OutOfMemoryError",
        "message": "CUDA: <b>",
        "phase": "update_actor",
        "role": "actor",
        "rank": 3,
        "host": "node-7",
        "step": 2,
        "trace": "x",
        "span": "w",
    }


def test_a_run_that_never_told_of_its_end_failed_in_its_spans(rows):
    rows.span("verl.phase.gen", 11, 15, step=2, phase="gen", error=True, message="ValueError: no")
    found = failure(rows.cursor())
    assert (found["type"], found["message"], found["phase"], found["step"]) == (
        "ValueError",
        "ValueError: no",
        "gen",
        2,
    )


def test_a_run_that_was_well_has_no_failure(rows):
    assert failure(rows.cursor()) is None
    rows.event(semconv.EVENT_RUN_END, 20, {semconv.RUN_OUTCOME: "finished"})
    assert failure(rows.cursor()) is None


def test_the_last_good_step_is_the_last_all_of_whose_values_are_numbers(rows):
    assert last_good_step(rows.cursor()) is None
    rows.scalars("a", [(1, 1, 1.0), (2, 2, 1.0), (3, 3, 1.0)])
    rows.scalars("b", [(2, 2, 1.0), (3, 3, math.nan)])
    assert last_good_step(rows.cursor()) == 2


def test_health_counts_what_is_missing_but_no_zero_that_is_only_there_to_be_compared(rows):
    for reason, count in (("none", 0), ("queue_full", 7), ("refused", 2)):
        rows.counter(semconv.TELEMETRY_DROPPED.name, [(1, count)], {semconv.DROP_REASON: reason})
    rows.counter(semconv.METRIC_CUT.name, [(1, 4)])
    rows.counter(semconv.ROLLOUT_UNSAMPLED.name, [(1, 10), (2, 30)])
    assert health(rows.cursor(), at(10), 2.5) == {"lost": 9, "late_s": 2.5, "cut": 4, "sampled_out": 30}


def stepped(rows, **shares):
    for step in range(1, 21):
        rows.scalars("timing_s/step", [(step, step * 10, 10.0)])
        for phase, seconds in shares.items():
            rows.scalars(f"timing_s/{phase}", [(step, step * 10, seconds)])


def advised(rows, second=200):
    return {one["key"]: one for one in advice(rows.cursor(), at(second))}


def test_advice_names_what_the_engines_could_take(rows):
    who = {semconv.ROLE: "rollout", semconv.REPLICA: 0}
    rows.points(semconv.ENGINE_RUNNING_PEAK.name, [(100, 5), (150, 12), (190, 3)], who)
    rows.points(semconv.ENGINE_RUNNING_LIMIT.name, [(190, 256)], who)
    assert advised(rows)["few_running"]["title"] == "Peak running 12 of 256 allowed"
    rows.points(semconv.ENGINE_KV_PEAK.name, [(190, 0.99)], who)
    rows.counter("vllm:num_preemptions_total", [(100, 1), (190, 31)], who)
    assert advised(rows)["cache_full"]["title"] == "The KV cache is full, 31 requests were preempted"
    assert "few_running" not in advised(rows), "a full cache is why"


def test_advice_says_which_side_is_starved(rows):
    stepped(rows, gen=7.5, update_weights=2.0)
    assert advised(rows)["starved"]["title"] == "Rollouts take 75% of a step"
    assert advised(rows)["weight_sync"]["title"] == "New weights take 20% of a step to reach the engines"
    idle = Rows()
    stepped(idle, gen=2.0)
    idle.points(
        semconv.REPLICA_IDLE.name, [(s, 0.8) for s in range(0, 200, 15)], {semconv.ROLE: "rollout", semconv.REPLICA: 0}
    )
    assert set(advised(idle)) == {"rollout_idle"}


def test_advice_on_what_teaches_nothing(rows):
    rows.points(semconv.GROUP_ZERO_VARIANCE.name, [(190, 0.6)], {semconv.GROUP_SIGNAL: "all_wrong"})
    rows.scalars("response_length/clip_ratio", [(step, step, 0.15) for step in range(1, 20)])
    assert advised(rows)["zero_variance"]["title"] == "In 60% of the groups all rewards are equal"
    assert advised(rows)["at_limit"]["title"] == "15% of the responses end at their limit"


def test_advice_on_a_long_tail(rows):
    for session in range(40):
        rows.trajectory("u", session, 0, 50 if session > 36 else 1)
    assert "tail" in advised(rows)


def test_alerts_silence_advice(rows):
    stepped(rows, gen=7.5)
    quiet = overview(rows.cursor(), RUN, at(1000))
    assert [one["key"] for one in quiet["advice"]] == ["starved"]
    rows.counter(semconv.METRIC_NONFINITE.name, [(900, 0), (990, 1)], {semconv.METRIC_KEY: "actor/loss"})
    loud = overview(rows.cursor(), RUN, at(1000))
    assert [one["summary"] for one in loud["alerts"]] == ["actor/loss is NaN or infinite"]
    assert loud["advice"] == []


def test_a_run_that_ended_has_nothing_open_and_one_that_vanished_is_an_alert(rows):
    alive(rows, 990)
    opened(rows, 990, 3.0, phase="gen")
    ended = overview(rows.cursor(), RUN | {"status": "finished"}, at(100_000))
    assert (ended["phases_open"], ended["progress"], ended["alerts"]) == ([], None, [])
    vanished = overview(rows.cursor(), RUN | {"status": "vanished"}, at(2000))
    assert [one["name"] for one in vanished["alerts"]] == ["VerlRunVanished"]
    assert vanished["phases_open"][0]["name"] == "gen", "where it was when it was last heard of"
    running = overview(rows.cursor(), RUN, at(1004))
    assert running["health"]["late_s"] == 4.0
