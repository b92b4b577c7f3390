"""Rewards of a real run in trouble, and rewards by a model behind verl's router."""

import pytest
from observed import problems
from run import KIT

from e2e.backends import text_of
from e2e.conftest import observe
from e2e.rewards import ERROR_MARK, SLEEPS
from e2e.rollouts import counted, total, trajectories
from e2e.trainers import reward
from verl_otel import semconv

pytestmark = [pytest.mark.verl, pytest.mark.long]

MODEL = "reward.reward_model"
JUDGE = (
    f"{MODEL}.enable=True",
    f"{MODEL}.enable_resource_pool=True",
    f"{MODEL}.n_gpus_per_node=1",
    f"{MODEL}.nnodes=1",
    f"{MODEL}.model_path={KIT}/model",
    f"{MODEL}.rollout.name=vllm",
    f"{MODEL}.rollout.tensor_model_parallel_size=1",
    f"{MODEL}.rollout.enforce_eager=True",
    f"{MODEL}.rollout.free_cache_engine=False",
    f"+{MODEL}.rollout.enable_sleep_mode=False",
    f"{MODEL}.rollout.gpu_memory_utilization=0.1",
    f"{MODEL}.rollout.prompt_length=128",
    f"{MODEL}.rollout.response_length=16",
    f"{MODEL}.rollout.max_model_len=256",
    f"{MODEL}.rollout.max_num_batched_tokens=512",
    f"{MODEL}.rollout.max_num_seqs=32",
)


@pytest.fixture(scope="module")
def troubled(tmp_path_factory):
    """Two steps with a reward that raises for some, and sleeps once."""
    quick = {"OTEL_METRIC_EXPORT_INTERVAL": "1000", "VERL_OTEL_STUCK_AFTER": "15", "VERL_OTEL_LOGS": "true"}
    return observe(tmp_path_factory.mktemp("troubled"), "auto", 2, quick, reward("troubled"))


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """One step, judged by a model of its own server, with verl's own option for Prometheus."""
    folder = tmp_path_factory.mktemp("judged")
    option = "actor_rollout_ref.rollout.prometheus"
    scraped = (f"{option}.enable=True", f"{option}.file={folder}/prometheus.yml", f"{option}.port=9")
    return observe(folder, "auto", 1, (), (*JUDGE, *scraped, *reward("judged")))


@pytest.fixture(scope="module")
def colocated(tmp_path_factory):
    """One step, judged by a model that shares the trainer's GPUs: it is asked when all trajectories are there.

    By the legacy trainer: V1's hands a colocated reward no `data_source`, which a reward function needs.
    """
    shared = [one for one in JUDGE if "enable_resource_pool" not in one and "nodes" not in one and "n_gpus" not in one]
    return observe(
        tmp_path_factory.mktemp("colocated"), "auto", 1, (), (*shared, *reward("judged"), "trainer.use_v1=False")
    )


def test_the_run_goes_on_as_without_us(troubled):
    assert troubled.code == 0, troubled.output[-3000:]
    assert problems(troubled.capture, troubled.log) == []


def test_each_reward_that_raised_is_told_with_its_trajectory(troubled, record_property):
    failed = [one for one in trajectories(troubled.capture) if one[semconv.ROLLOUT_OUTCOME] == "failed"]
    record_property("failed trajectories", len(failed))
    assert failed
    for one in failed:
        (call,) = one.of(semconv.SPAN_REWARD)
        assert call.error
        assert call.attributes["error.type"] == "ValueError"
        assert one.root.error
        assert semconv.REWARD not in one.root.attributes
        assert one[semconv.ROLLOUT_GENERATED_TOKENS] == one.server_tokens()
    assert total(troubled.capture, semconv.ROLLOUT_ENDED, verl_rollout_outcome="failed") == len(failed)
    training = [one for one in failed if not one[semconv.VALIDATION]]
    assert total(troubled.capture, semconv.ROLLOUT_MISSING, verl_validation=False) == len(training)
    assert len(trajectories(troubled.capture, validation=False)) == 32


def test_the_one_that_sleeps_is_named_while_it_does(troubled):
    (slow,) = (one for one in trajectories(troubled.capture) if one.root.seconds > SLEEPS)
    (stuck,) = (one for one in troubled.capture.events if one.attributes.get(semconv.REWARD_FUNCTION))
    assert stuck.name == semconv.EVENT_STUCK
    assert stuck.attributes[semconv.REWARD_FUNCTION] == "troubled"
    assert stuck.attributes[semconv.SAMPLE_UID] == slow[semconv.SAMPLE_UID]
    assert stuck.attributes[semconv.ROLLOUT_SESSION] == slow[semconv.ROLLOUT_SESSION]
    assert "troubled" in stuck.attributes[semconv.STUCK_STACKS]
    oldest = [one for one in troubled.capture.points if one.metric == semconv.ROLLOUT_OLDEST.name]
    longest = max(oldest, key=lambda one: one.value)
    assert longest.value > SLEEPS / 2
    assert longest.attributes[semconv.ROLLOUT_WAITING_FOR] == "reward"
    running = [one for one in troubled.capture.points if one.metric == semconv.ROLLOUT_GROUPS.name and one.value]
    assert {one.attributes[semconv.ROLLOUT_STATE] for one in running} >= {"running", "failed"}


def test_no_word_of_an_exception_left_the_run(troubled):
    assert ERROR_MARK not in text_of(troubled.folder)
    assert ERROR_MARK in troubled.output


def test_a_judge_is_in_the_trajectorys_trace(judged, record_property):
    assert judged.code == 0, judged.output[-3000:]
    assert problems(judged.capture, judged.log) == []
    everything = trajectories(judged.capture)
    assert len(everything) == 16 + 2 * 4
    for one in everything:
        (call,) = one.of(semconv.SPAN_REWARD)
        (judge,) = (span for span in one.of(semconv.SPAN_GENERATE_SERVER) if span.attributes[semconv.ROLE] == "reward")
        (mine,) = (span for span in one.of(semconv.SPAN_GENERATE_SERVER) if span.attributes[semconv.ROLE] == "rollout")
        assert judge.parent == call.id
        assert judge.attributes[semconv.LANE] == "reward/0"
        assert judge.attributes[semconv.ENGINE_OUTPUT_TOKENS] == call.attributes[semconv.GEN_AI_SCORE]
        assert mine.attributes[semconv.LANE] == "replica/0"
        assert call.attributes[semconv.REWARD_REQUESTS] == 1
        # It was asked for the whole at once, which says nothing of the first token.
        assert semconv.ENGINE_FIRST_TOKEN not in judge.attributes
    assert counted(judged.capture, semconv.SERVER_DURATION.name, verl_role="reward")[0] == len(everything)
    record_property("judged", len(everything))


def test_each_engines_own_metrics_have_its_role_beside_verls_own_option(judged):
    asked = {"rollout": 16 + 2 * 4, "reward": 16 + 2 * 4}
    for role, requests in asked.items():
        assert (
            total(judged.capture, semconv.MetricName("vllm:request_success_total", "", ""), verl_role=role) == requests
        )
    assert "job_name: rollout" in (judged.folder / "prometheus.yml").read_text()


def test_a_colocated_judge_is_below_the_steps_reward_phase(colocated, record_property):
    assert colocated.code == 0, colocated.output[-3000:]
    assert problems(colocated.capture, colocated.log) == []
    (phase,) = (
        one
        for one in colocated.capture.spans
        if one.name == "verl.phase.reward" and one.attributes.get(semconv.STEP) == 1
    )
    calls = [one for one in colocated.capture.spans if one.name == semconv.SPAN_REWARD and one.trace == phase.trace]
    record_property("reward calls", len(calls))
    assert len(calls) >= 16
    asked = {one.parent for one in colocated.capture.spans if one.name == semconv.SPAN_GENERATE_SERVER}
    assert {one.id for one in calls} <= asked
    for one in trajectories(colocated.capture, validation=False):
        assert semconv.REWARD not in one.root.attributes
