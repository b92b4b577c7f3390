"""Rollouts of a real run: each trajectory a trace, from the agent loop to engine and reward, and all are counted."""

from collections import Counter

import pytest

from e2e.rollouts import counted, total, trajectories
from verl_otel import semconv

pytestmark = pytest.mark.verl

STEPS, PROMPTS, SAMPLES, VALIDATED, VALIDATIONS = 3, 4, 4, 4, 3
TRAINED = STEPS * PROMPTS * SAMPLES


@pytest.fixture(scope="session")
def run(demo):
    return demo[2]


def spans_named(run, name):
    return [one for one in run.capture.spans if one.name == name]


def test_there_are_exactly_as_many_as_were_asked_for(run):
    assert len(trajectories(run.capture, validation=False)) == TRAINED
    assert len(trajectories(run.capture, validation=True)) == VALIDATED * VALIDATIONS
    assert total(run.capture, semconv.ROLLOUT_DISPATCHED, verl_validation=False) == TRAINED
    assert total(run.capture, semconv.ROLLOUT_STARTED) == TRAINED + VALIDATED * VALIDATIONS
    assert (
        total(run.capture, semconv.ROLLOUT_ENDED, verl_rollout_outcome="finished") == TRAINED + VALIDATED * VALIDATIONS
    )


def test_each_is_linked_to_the_root_that_dispatched_it(run):
    roots = {one.id: one for one in run.capture.spans if not one.parent}
    for one in trajectories(run.capture):
        ((_, dispatcher),) = one.root.links
        name = roots[dispatcher].name
        before_training = one[semconv.VALIDATION] and one[semconv.STEP] == 0
        assert name == (semconv.SPAN_VALIDATE if before_training else semconv.SPAN_STEP)
        if not before_training:
            assert roots[dispatcher].attributes[semconv.STEP] == one[semconv.STEP]
    epochs = {one[semconv.EPOCH] for one in trajectories(run.capture, validation=False)}
    assert epochs == {0}


def test_each_is_one_trace_from_the_agent_loop_to_engine_and_reward(run):
    for one in trajectories(run.capture):
        (client,), (server,), (reward,) = (
            one.of(name) for name in (semconv.SPAN_GENERATE_CLIENT, semconv.SPAN_GENERATE_SERVER, semconv.SPAN_REWARD)
        )
        assert server.parent == client.id
        assert client.parent == reward.parent == one.root.id
        assert len({client.process, server.process, reward.process}) == 3
        assert client.attributes["server.address"] == "127.0.0.1"
        assert reward.attributes[semconv.REWARD_FUNCTION] == "compute_score"
        assert reward.attributes[semconv.SAMPLE_UID] == one[semconv.SAMPLE_UID]
        assert reward.attributes[semconv.ROLLOUT_SESSION] == one[semconv.ROLLOUT_SESSION]


def test_the_engine_tells_what_it_did_for_each(run):
    for one in trajectories(run.capture):
        (server,) = one.of(semconv.SPAN_GENERATE_SERVER)
        told = server.attributes
        assert one.server_tokens() == one[semconv.ROLLOUT_RESPONSE_TOKENS] == one[semconv.ROLLOUT_GENERATED_TOKENS]
        assert told[semconv.ENGINE_INPUT_TOKENS] == one[semconv.ROLLOUT_PROMPT_TOKENS]
        assert 0 < told[semconv.ENGINE_FIRST_TOKEN] < server.seconds
        assert told[semconv.ENGINE_PER_TOKEN] > 0
        assert 0 <= told[semconv.ENGINE_QUEUED] < server.seconds  # log stats are on in this run
        assert told[semconv.ENGINE_CACHED_TOKENS] >= 0
        assert (told[semconv.ROLE], told[semconv.REPLICA], told[semconv.LANE]) == ("rollout", 0, "replica/0")


def test_rewards_are_those_of_verls_own_dumps(run):
    dumped = {key: line for (_, key), line in run.generations("rollouts").items()}
    trained = {one.key: one for one in trajectories(run.capture, validation=False)}
    assert trained.keys() == dumped.keys()
    for key, one in trained.items():
        assert one[semconv.REWARD] == pytest.approx(dumped[key]["score"], rel=1e-6)
        assert set(one.root.attributes) >= {semconv.REWARD_PART + name for name in ("score", "acc", "digit_share")}
        (reward,) = one.of(semconv.SPAN_REWARD)
        assert reward.attributes[semconv.GEN_AI_SCORE] == one[semconv.REWARD]
    validated = {(one[semconv.STEP], one.key): one for one in trajectories(run.capture, validation=True)}
    dumped = run.generations("validation")
    assert validated.keys() == dumped.keys()
    for key, one in validated.items():
        assert one[semconv.REWARD] == pytest.approx(dumped[key]["score"], rel=1e-6)


def test_their_mean_is_what_verl_logged(run):
    for step, data in run.log:
        rewards = [
            one[semconv.REWARD] for one in trajectories(run.capture, validation=False) if one[semconv.STEP] == step
        ]
        if rewards:
            assert sum(rewards) / len(rewards) == pytest.approx(data["critic/score/mean"], rel=1e-5)


def test_a_step_tells_the_parts_of_its_rewards(run):
    rewards = [one for one in trajectories(run.capture, validation=False) if one[semconv.STEP] == STEPS]
    for part in ("score", "acc", "digit_share"):
        values = [one[semconv.REWARD_PART + part] for one in rewards]
        for statistic, expected in (("mean", sum(values) / len(values)), ("min", min(values)), ("max", max(values))):
            named = {"verl_reward_name": part, "verl_statistic": statistic}
            assert total(run.capture, semconv.REWARD_STEP, **named) == pytest.approx(expected, rel=1e-6)


def test_a_steps_gen_names_what_it_consumed(run):
    for step in spans_named(run, semconv.SPAN_STEP):
        (gen,) = (one for one in run.capture.spans if one.trace == step.trace and one.name == "verl.phase.gen")
        mine = {one.key for one in trajectories(run.capture, validation=False) if one.root.links[0][1] == step.id}
        assert set(gen.attributes[semconv.ROLLOUT_CONSUMED]) == mine
        assert gen.attributes[semconv.ROLLOUT_CONSUMED_COUNT] == PROMPTS * SAMPLES
        made = {one.root.id for one in trajectories(run.capture, validation=False) if one.root.links[0][1] == step.id}
        assert {span for _, span in gen.links} == made
    assert total(run.capture, semconv.ROLLOUT_MISSING) == total(run.capture, semconv.ROLLOUT_SHORT) == 0


def test_weights_have_versions(run):
    for one in trajectories(run.capture, validation=False):
        assert one[semconv.WEIGHTS_OLDEST] == one[semconv.WEIGHTS_NEWEST] == one[semconv.STEP] - 1
    count, late = counted(run.capture, semconv.ROLLOUT_STALENESS.name)
    assert (count, late) == (TRAINED, 0)
    assert total(run.capture, semconv.REPLICA_WEIGHTS) == STEPS
    sizes = [one.attributes.get(semconv.WEIGHTS_SIZE) for one in spans_named(run, "verl.worker.update_weights")]
    assert len(sizes) == STEPS + 1
    assert len(set(sizes)) == 1
    assert total(run.capture, semconv.WEIGHTS_TRANSFERRED) == sum(sizes) > 100_000


def test_a_replica_was_busy_whenever_it_had_a_request(run):
    busy = [one for one in spans_named(run, semconv.SPAN_REPLICA_BUSY) if one.attributes[semconv.REPLICA] == 0]
    assert all(one.attributes[semconv.LANE] == "replica/0" and not one.parent for one in busy)
    slack = 5_000_000  # ns between a request's span and its replica's state, and between the parts of a cut interval
    stretches = []
    for one in sorted(busy, key=lambda one: one.start):
        if stretches and one.start - stretches[-1][1] < slack:
            stretches[-1][1] = one.end
        else:
            stretches.append([one.start, one.end])
    for request in spans_named(run, semconv.SPAN_GENERATE_SERVER):
        assert any(start - slack <= request.start and request.end <= end + slack for start, end in stretches)
    assert all(one.seconds < 11 for one in busy)
    assert sum(one.attributes[semconv.ENGINE_REQUESTS] for one in busy) >= TRAINED + VALIDATED * VALIDATIONS
    seconds = sum(one.seconds for one in busy)
    assert total(run.capture, semconv.REPLICA_BUSY_TIME) == pytest.approx(seconds, rel=0.01)


def test_every_metric_sees_every_trajectory(run):
    everything = TRAINED + VALIDATED * VALIDATIONS
    tokens = sum(one.server_tokens() for one in trajectories(run.capture))
    for metric in (semconv.INVOKE_AGENT_DURATION, semconv.SERVER_DURATION, semconv.SERVER_FIRST_TOKEN):
        assert counted(run.capture, metric.name)[0] == everything
    assert counted(run.capture, semconv.INVOKE_AGENT_MODEL_CALLS.name) == (everything, everything)
    assert counted(run.capture, semconv.REWARD_DURATION.name)[0] == everything
    lengths = [one for one in run.capture.points if one.metric == semconv.ROLLOUT_TOKENS.name]
    kinds = {one.attributes[semconv.TOKEN_KIND] for one in lengths}
    assert kinds == {"prompt", "response", "generated"}
    usage = "gen_ai.client.token.usage"
    assert counted(run.capture, usage, gen__ai_token_type="output") == (everything, tokens)
    assert counted(run.capture, usage, gen__ai_token_type="input")[0] == everything


def test_groups_say_what_they_can_teach(run):
    signals = Counter()
    for step in range(1, STEPS + 1):
        groups = {}
        for one in trajectories(run.capture, validation=False):
            if one[semconv.STEP] == step:
                groups.setdefault(one[semconv.SAMPLE_UID], set()).add(one[semconv.REWARD])
        signals["mixed"] += sum(len(rewards) > 1 for rewards in groups.values())
    assert total(run.capture, semconv.GROUP_SIGNALS, verl_group_signal="mixed") == signals["mixed"]
    assert total(run.capture, semconv.GROUP_SIGNALS) == STEPS * PROMPTS


def test_what_surrounds_them_is_in_the_steps_trace(run):
    for step in spans_named(run, semconv.SPAN_STEP):
        names = {one.name for one in run.capture.spans if one.trace == step.trace}
        assert names >= {"verl.queue.kv_batch_get", "verl.queue.kv_batch_put", "verl.queue.kv_clear"}
        assert "verl.replica.clear_kv_cache" in names
    for one in trajectories(run.capture):
        assert len(one.of("verl.queue.async_kv_batch_put")) == 1
