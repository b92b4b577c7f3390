"""What a step's numbers mean together."""

from time import sleep, time_ns

import pytest

from helpers import with_settings
from verl_otel import semconv
from verl_otel.telemetry import engine_load, figures, neighbours, steps
from verl_otel.telemetry.engine_load import Load

LOGGED = {
    "perf/total_num_tokens": 1000,
    "perf/time_per_step": 10.0,
    "perf/throughput": 25.0,
    "timing_s/update_actor": 2.0,
    "timing_s/old_log_prob": 0.5,
    "timing_s/gen": 4.0,
    "prompt_length/mean": 50.0,
    "response_length/mean": 150.0,
    "a text": "x",
}
NUMBERS = {key: value for key, value in LOGGED.items() if not isinstance(value, str)}


def report(gpus=(), messages=()):
    figures.take({"gpus": list(gpus), "messages": [(time_ns(), one) for one in messages]})


def call(rank, seconds, step=3, phase="update_actor", role="actor"):
    told = {"kind": figures.CALL, "step": step, "phase": phase, "role": role, "rank": rank}
    return {**told, "seconds": seconds}


def test_throughput_effective_of_the_trainer_and_of_the_rollouts(recorded):
    found = figures.of_step(1, LOGGED)
    assert found.throughput == {"effective": 100, "trainer": 400, "rollout": pytest.approx(1000 * 0.75 / 4)}
    assert found.gpus == 4
    told = {
        one.attributes[semconv.THROUGHPUT]: one.value for one in recorded.metrics()[semconv.STEP_GPU_THROUGHPUT.name]
    }
    assert told["effective"] == 25


def test_without_verls_numbers_nothing_is_made_up(recorded):
    assert figures.of_step(1, {"loss": 1.0}) == figures.Figures()
    assert not {one for one in recorded.metrics() if one.startswith(("verl.step.", "verl.gpu", "verl.phase.straggler"))}


def test_energy_counts_from_the_last_steps_last_sample(recorded):
    report([(1, {"a": [0.5, 100.0], "b": [0.5, 50.0]}), (2, {"a": [0.5, 110.0], "b": [0.5, 55.0]})])
    assert figures.of_step(1, {}).energy == 15
    report([(3, {"a": [0.5, 140.0], "b": [None, None]})])
    assert figures.of_step(2, {}).energy == 30
    assert figures.of_step(3, {}).energy is None
    report([(4, {"a": [0.5, 10.0]})])  # the driver was loaded anew
    assert figures.of_step(4, {}).energy == 0


def test_idle_is_by_phase_and_gpu(recorded):
    steps.trainer_started(lambda: 1)
    before = time_ns()
    phase = steps.phase("gen")
    sleep(0.01)
    within = time_ns()
    sleep(0.01)
    phase.stop()
    report([(before - 10**9, {"a": [1.0, None]}), (within, {"a": [0.2, None], "b": [0.6, None]})])
    found = figures.of_step(1, {}).idle
    assert found == {"gen": {"a": pytest.approx(0.8), "b": pytest.approx(0.4)}}


def test_the_slowest_rank_is_named_with_what_it_cost(recorded):
    report(messages=[call(0, 1.0), call(1, 1.2), call(2, 4.0), call(2, 1.0), call(0, 9.0, phase="ref", role="lonely")])
    found = figures.of_step(3, {})
    assert found.straggling == {("update_actor", "actor"): (pytest.approx(5.0 - 1.2), 2)}
    (gap,) = recorded.metrics()[semconv.STRAGGLER_GAP.name]
    assert gap.attributes == {semconv.PHASE: "update_actor", semconv.ROLE: "actor"}


def test_what_comes_late_counts_for_the_next_step_and_once(recorded):
    report(messages=[call(0, 1.0, step=2), call(1, 2.0, step=2), call(0, 1.0, step=4), call(1, 9.0, step=4)])
    assert figures.of_step(3, {}).straggling[("update_actor", "actor")][0] == 0.5
    assert figures.of_step(4, {}).straggling[("update_actor", "actor")][0] == 4


def test_figures_are_scalars_for_verls_loggers(recorded):
    engine = {"running_peak": 12, "running_limit": 256, "kv_cache_peak": 0.3, "preemptions": 0}
    told = [{"kind": "engine", "role": "rollout", "replica": number, "values": engine} for number in (0, 1)]
    report([(1, {"a": [0.5, 1.0]}), (2, {"a": [0.5, 3.0]})], [*told, call(0, 1.0), call(1, 3.0)])
    found = figures.of_step(3, LOGGED).scalars()
    assert found["verl_otel/gpu_energy_j"] == 2
    assert found["verl_otel/engine/running_peak"] == 12
    assert found["verl_otel/engine/running_limit"] == 256
    assert found["verl_otel/tokens_per_s_per_gpu/effective"] == 25
    assert found["verl_otel/straggler_gap_s/update_actor/actor"] == 1
    assert found["verl_otel/straggler_rank/update_actor/actor"] == 1
    assert all(isinstance(value, int | float) for value in found.values())


def test_an_engines_peaks_are_seen_between_exports(recorded, monkeypatch):
    told = []
    monkeypatch.setattr(neighbours, "_listeners", [lambda kind, message: told.append((kind, message))])
    engine_load.may_run(256)
    for load, preempted in ((Load(3, 0.1), 0), (Load(12, 0.5), 2), (Load(0, 0.0), 1)):
        engine_load.saw(0, load, preempted)
    engine_load.tell()
    points = recorded.metrics()
    peaks = [points[one.name][0].value for one in (semconv.ENGINE_RUNNING_PEAK, semconv.ENGINE_KV_PEAK)]
    assert peaks == [12, 0.5]
    assert points[semconv.ENGINE_RUNNING_LIMIT.name][0].value == 256
    assert recorded.metrics()[semconv.ENGINE_RUNNING_PEAK.name][0].value == 0
    ((kind, message),) = told
    assert kind == engine_load.ENGINE
    values = {"running_peak": 12, "kv_cache_peak": 0.5, "preemptions": 3, "running_limit": 256}
    assert message["values"] == values


def test_an_engines_cores_run_together(recorded):
    engine_load.may_run(256)
    engine_load.saw(0, Load(100, 0.4), 0)
    engine_load.saw(1, Load(60, 0.7), 0)
    engine_load.saw(0, Load(10, 0.1), 0)
    points = recorded.metrics()
    assert points[semconv.ENGINE_RUNNING_PEAK.name][0].value == 160
    assert points[semconv.ENGINE_KV_PEAK.name][0].value == 0.7
    assert points[semconv.ENGINE_RUNNING_LIMIT.name][0].value == 512


def test_numbers_that_are_none_cost_their_own_figure(recorded):
    for strange in (float("nan"), float("inf"), 10**400, True, "text", None):
        found = figures.of_step(1, {**LOGGED, "perf/throughput": strange})
        assert found.throughput["effective"] == 100


def test_a_step_that_is_logged_in_several_calls_has_figures_of_them_all(recorded):
    report([(1, {"a": [0.5, 0.0]}), (2, {"a": [0.5, 30.0]})], [call(0, 1.0), call(1, 3.0)])
    figures.of_step(3, LOGGED)
    report([(3, {"a": [0.5, 40.0]})])
    found = figures.of_step(3, {"val/score": 1.0})
    assert (found.energy, found.gpus, len(found.straggling)) == (40, 4, 1)
    assert figures.of_step(4, {}) == figures.Figures()


def test_what_fails_in_them_costs_no_scalar(recorded, monkeypatch):
    from verl_otel.guard import failures
    from verl_otel.instrumentors import tracking
    from verl_otel.patching import patches

    monkeypatch.setattr(figures, "of_step", lambda step, data: 1 / 0)
    monkeypatch.setattr(patches("verl_tracking"), "active", True)
    logged = []

    class Tracking:
        def log(self, data, step, backend=None):
            logged.append((data, step))

    tracking.wrap_log(Tracking.log)(Tracking(), {"loss": 1.0}, 3)
    assert logged == [({"loss": 1.0}, 3)]
    (snapshot,) = recorded.snapshots()
    assert snapshot["verl.loss"][0].value == 1
    assert sum(failures.counts().values()) == 1


def test_verls_loggers_get_them_only_where_asked_for(recorded, monkeypatch):
    from verl_otel.instrumentors import tracking
    from verl_otel.patching import patches

    monkeypatch.setattr(patches("verl_tracking"), "active", True)
    logged = []

    class Tracking:
        def log(self, data, step, backend=None):
            logged.append(data)

    log, given = tracking.wrap_log(Tracking.log), dict(LOGGED)
    log(Tracking(), given, 3)
    assert logged.pop() is given
    with_settings(monkeypatch, log_figures=True)
    log(Tracking(), data=given, step=4)
    assert logged.pop() == {**LOGGED, **figures.Figures(None, {}, *figures._throughput_of(NUMBERS)).scalars()}
    assert given == LOGGED
