"""The same on SGLang's CPU engine: `install.py --sglang` brings it."""

import pytest
from observed import problems
from run import KIT

from e2e.agents import SGLANG, SGLANG_ENVIRONMENT
from e2e.conftest import observe
from e2e.pages import Pages, check
from e2e.rollouts import counted, total, trajectories
from verl_otel import semconv

pytestmark = [pytest.mark.verl, pytest.mark.long]

TRAINED, VALIDATED = 2 * 4 * 4, 2 * 4


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two steps, with SGLang's metrics on."""
    if not (KIT / "sglang").exists():
        pytest.skip("SGLang is not installed: examples/cpu/install.py --tests --sglang")
    asked = {**SGLANG_ENVIRONMENT, "OTEL_METRIC_EXPORT_INTERVAL": "1000"}
    pages, metrics = Pages(), "+actor_rollout_ref.rollout.engine_kwargs.sglang.enable_metrics=True"
    run = observe(tmp_path_factory.mktemp("sglang"), "auto", 2, asked, (*SGLANG, metrics), meanwhile=pages.follow)
    run.pages = pages.read
    return run


def test_it_is_complete(run):
    assert run.code == 0, run.output[-3000:]
    assert problems(run.capture, run.log) == []
    assert len(trajectories(run.capture, validation=False)) == TRAINED
    assert len(trajectories(run.capture, validation=True)) == VALIDATED


def test_each_is_one_trace_with_both_sides_of_its_model_call(run):
    for one in trajectories(run.capture):
        (client,), (server,) = one.of(semconv.SPAN_GENERATE_CLIENT), one.of(semconv.SPAN_GENERATE_SERVER)
        assert server.parent == client.id
        assert server.attributes[semconv.GEN_AI_PROVIDER_NAME] == "sglang"
        assert server.attributes[semconv.LANE] == "replica/0"
        assert server.attributes[semconv.ENGINE_CACHED_TOKENS] >= 0
        assert one.server_tokens() == one[semconv.ROLLOUT_RESPONSE_TOKENS] == one[semconv.ROLLOUT_GENERATED_TOKENS]
        assert len(one.of(semconv.SPAN_REWARD)) == 1


def test_its_rewards_are_those_of_verls_own_dumps(run):
    dumped = {key: line for (_, key), line in run.generations("rollouts").items()}
    trained = {one.key: one for one in trajectories(run.capture, validation=False)}
    assert trained.keys() == dumped.keys()
    assert all(one[semconv.REWARD] == pytest.approx(dumped[key]["score"], rel=1e-6) for key, one in trained.items())


def test_its_replica_and_weights_are_told(run):
    busy = [one for one in run.capture.spans if one.name == semconv.SPAN_REPLICA_BUSY]
    assert {one.attributes[semconv.LANE] for one in busy} == {"replica/0"}
    assert total(run.capture, semconv.REPLICA_WEIGHTS) == 2
    assert total(run.capture, semconv.WEIGHTS_TRANSFERRED) > 100_000
    assert counted(run.capture, semconv.SERVER_DURATION.name)[0] == TRAINED + VALIDATED


def test_its_metrics_are_those_of_its_page(run, record_property):
    record_property("readings between pages", check(run))
    assert any(name.startswith("sglang:") for name in {one.metric for one in run.capture.points})
