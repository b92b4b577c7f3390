"""Every trainer of verl's, run for real on a CPU: steps, phases, worker calls and scalars are all told, none lost.

Those marked `long` run in `make test-all` alone.
"""

from contextlib import nullcontext

import pytest
from observed import lost, problems
from run import BRIDGES, QUIET

from e2e.conftest import observe
from e2e.rollouts import total, trajectories
from e2e.trainers import TRAINERS, older
from integration.clusters import Head
from verl_otel import semconv

pytestmark = pytest.mark.verl

LONG = ("colocate_async", "separate_async", "one_step_off", "fully_async", "legacy", "sft_ray")


@pytest.fixture(
    scope="module", params=[pytest.param(one, marks=pytest.mark.long) if one in LONG else one for one in TRAINERS]
)
def trained(request, tmp_path_factory):
    """(trainer, its finished run of two steps)."""
    trainer = TRAINERS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    bridges = {**BRIDGES, **QUIET}
    with Head(cpus=64, gpus=2, environment=bridges) if trainer.on_cluster else nullcontext() as head:
        address = head.address if head is not None else None
        run = observe(folder, "auto", 2, trainer.environment, trainer.overrides, module=trainer.module, address=address)
    return trainer, run


@pytest.fixture(scope="module", params=[pytest.param("0.9.0", marks=pytest.mark.long)])
def trained_by_older(request, tmp_path_factory):
    """(version, a run of two steps by an older verl)."""
    return request.param, observe(tmp_path_factory.mktemp("older"), "auto", 2, older(request.param))


def spans_named(run, prefix):
    return {one.name.removeprefix(prefix) for one in run.capture.spans if one.name.startswith(prefix)}


def test_everything_verl_logged_and_timed_is_there_and_nothing_is_lost(trained, record_property):
    trainer, run = trained
    assert run.code == 0, run.output[-3000:]
    found = problems(run.capture, run.log, asynchronous=trainer.asynchronous, ranks=trainer.programs)
    assert found == []
    record_property("spans", len(run.capture.spans))
    record_property("points", len(run.capture.points))
    record_property("lost", lost(run.capture))


def test_the_run_says_which_trainer_it_is(trained):
    trainer, run = trained
    infos = [one for one in run.capture.points if one.metric == semconv.RUN_INFO.name]
    assert {one.attributes[semconv.RUN_TRAINER] for one in infos} == {trainer.kind}
    (end,) = (one for one in run.capture.events if one.name == semconv.EVENT_RUN_END and one.attributes)
    assert end.attributes[semconv.RUN_OUTCOME] == "finished"


def test_its_roots_phases_and_worker_calls_are_there(trained):
    trainer, run = trained
    assert set(trainer.roots) <= {one.name for one in run.capture.spans if not one.parent}
    assert set(trainer.phases) <= spans_named(run, semconv.SPAN_PHASE)
    assert set(trainer.workers) <= spans_named(run, semconv.SPAN_WORKER)
    calls = [one for one in run.capture.spans if one.name == semconv.SPAN_WORKER + trainer.workers[0]]
    assert {one.attributes[semconv.RANK] for one in calls} == set(range(trainer.ranks))


def test_worker_calls_of_a_step_are_in_its_trace(trained):
    trainer, run = trained
    traces = {one.trace for one in run.capture.spans if one.name == semconv.SPAN_STEP}
    calls = [one for one in run.capture.spans if one.name == semconv.SPAN_WORKER + trainer.workers[0]]
    assert calls
    assert {one.trace for one in calls} <= traces


def test_trajectories_are_those_of_its_agent_loop(trained):
    trainer, run = trained
    if trainer.kind == "sft":
        pytest.skip("nothing is rolled out")
    told = [one for one in trajectories(run.capture) if one[semconv.ROLLOUT_OUTCOME] == "finished"]
    assert told
    for one in told:
        assert one.root.name == f"{semconv.SPAN_AGENT} {trainer.agent_loop}"
        calls = len(one.of(semconv.SPAN_GENERATE_CLIENT)) - (one[semconv.ROLLOUT_RESUMED] or 0)
        assert calls == trainer.model_calls


def test_an_asynchronous_trainer_starts_more_than_it_trains_on(trained):
    trainer, run = trained
    if not trainer.warmup:
        pytest.skip("all that it starts, it trains on")
    batch, steps = 4 * 4, 2
    asked = batch * (steps + trainer.warmup)
    assert total(run.capture, semconv.ROLLOUT_DISPATCHED, verl_validation=False) == asked
    started = total(run.capture, semconv.ROLLOUT_STARTED, verl_validation=False)
    ended = total(run.capture, semconv.ROLLOUT_ENDED, verl_validation=False)
    told = trajectories(run.capture, validation=False)
    assert len(told) == started
    in_flight = [one for one in told if one[semconv.TRUNCATED] or one[semconv.ROLLOUT_OUTCOME] == "cancelled"]
    assert steps * batch <= started <= asked
    assert started - ended == sum(bool(one[semconv.TRUNCATED]) for one in in_flight)


def test_a_users_own_spans_are_in_the_trajectorys_trace(trained):
    trainer, run = trained
    if not trainer.user_spans:
        pytest.skip("nothing of a user's makes spans in this run")
    trajectories = {one.trace for one in run.capture.spans if one.name.startswith(semconv.SPAN_AGENT)}
    for name in trainer.user_spans:
        mine = [one for one in run.capture.spans if one.name == name]
        assert mine
        assert all(one.parent and one.scope == "user" and one.attributes["length"] >= 0 for one in mine)
        assert {one.trace for one in mine} <= trajectories


def test_all_processes_are_of_one_run(trained):
    _, run = trained
    assert len({one.resource.get(semconv.RUN_ID) for one in run.capture.spans}) == 1


def test_an_older_verl_is_observed_as_the_current_one(trained_by_older):
    version, run = trained_by_older
    assert run.code == 0, run.output[-3000:]
    assert problems(run.capture, run.log) == []
    infos = [one for one in run.capture.points if one.metric == semconv.RUN_INFO.name]
    assert {one.attributes["verl.run.version.verl"] for one in infos} == {version}
