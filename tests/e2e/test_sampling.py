"""A share of the trajectories has traces, the very one that the hash says; metrics see all of them."""

import pytest
from observed import problems

from e2e.conftest import observe
from e2e.rollouts import counted, total, trajectories
from verl_otel import semconv
from verl_otel.telemetry import sampling

pytestmark = [pytest.mark.verl, pytest.mark.long]

TRAINED, VALIDATED = 16, 2 * 4


@pytest.fixture(scope="module", params=[0.0, 0.1, 1.0])
def sampled(request, tmp_path_factory):
    """(ratio, a run of one step)."""
    asked = {"VERL_OTEL_ROLLOUT_RATIO": str(request.param), "VERL_OTEL_RUN_ID": "a-run-of-a-known-name"}
    return request.param, observe(tmp_path_factory.mktemp("sampled"), "auto", 1, asked)


def test_it_is_the_very_set_that_the_hash_says(sampled, record_property):
    ratio, run = sampled
    assert run.code == 0, run.output[-3000:]
    assert problems(run.capture, run.log) == []
    asked = [(step, *key.split("_")[:2]) for of in ("rollouts", "validation") for step, key in run.generations(of)]
    assert len(asked) == TRAINED + VALIDATED
    run_id = run.capture.spans[0].resource[semconv.RUN_ID]
    expected = {
        (step, uid, int(session))
        for step, uid, session in asked
        if sampling.share(run_id, step, uid, int(session)) < ratio
    }
    told = {
        (one[semconv.STEP], one[semconv.SAMPLE_UID], one[semconv.ROLLOUT_SESSION]) for one in trajectories(run.capture)
    }
    assert told == expected
    record_property("traced", len(told))
    assert total(run.capture, semconv.ROLLOUT_UNSAMPLED) == TRAINED + VALIDATED - len(expected)


def test_metrics_see_all_of_them(sampled):
    _, run = sampled
    logged = {step: data["response_length/mean"] for step, data in run.log if "response_length/mean" in data}
    generated = {"verl_token_kind": "generated", "verl_validation": False}
    calls, tokens = counted(run.capture, semconv.ROLLOUT_TOKENS.name, **generated)
    assert (calls, tokens) == (TRAINED, pytest.approx(logged[1] * TRAINED))
    for metric in (semconv.INVOKE_AGENT_DURATION, semconv.SERVER_DURATION, semconv.REWARD_DURATION):
        assert counted(run.capture, metric.name)[0] == TRAINED + VALIDATED
    assert counted(run.capture, "gen_ai.client.token.usage", gen__ai_token_type="output")[0] == TRAINED + VALIDATED
