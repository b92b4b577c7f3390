"""A tool agent, for real: several turns with tools in processes of their own, some of which fail, and no word of it."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from observed import problems

from e2e.agents import MARKS, PROMPT, ROLLOUT, TOOLS
from e2e.backends import text_of
from e2e.conftest import observe
from e2e.pages import QUEUE, Pages, check, check_queue
from e2e.rollouts import counted, trajectories
from e2e.tools_marks import ERROR_MARK, OUTPUT_MARK, UNKNOWN_MARK
from verl_otel import semconv
from verl_otel.telemetry import sampling, tools

pytestmark = pytest.mark.verl

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
TRAINED, VALIDATED = 2 * 4 * 4, 2 * 4


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two steps, with log messages and log-probabilities exported too, no content, and vLLM's log stats off."""
    asked = {
        "VERL_OTEL_LOGS": "true",
        "VERL_OTEL_TOKEN_MISMATCH": "true",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        "TQ_LOGGING_LEVEL": "INFO",
    }
    overrides = (*TOOLS, f"{ROLLOUT}.disable_log_stats=True", "transfer_queue.metrics.enabled=True")
    pages, queue = Pages(), Pages(QUEUE)

    def meanwhile(running, backend):
        with ThreadPoolExecutor(2) as both:
            list(both.map(lambda one: one.follow(running, backend), (pages, queue)))

    run = observe(tmp_path_factory.mktemp("tools"), "auto", 2, asked, overrides, meanwhile=meanwhile)
    run.pages, run.queue = pages.read, queue.read
    return run


@pytest.fixture(scope="module")
def outspoken(tmp_path_factory):
    """The same, with content asked for, and a cap on trajectories."""
    asked = {CAPTURE: "SPAN_AND_EVENT", "VERL_OTEL_ROLLOUT_CAP": "5", "VERL_OTEL_ROLLOUT_RATIO": "0.5"}
    return observe(tmp_path_factory.mktemp("outspoken"), "auto", 2, asked, TOOLS)


def test_it_is_complete(run):
    assert run.code == 0, run.output[-3000:]
    assert problems(run.capture, run.log) == []
    assert len(trajectories(run.capture, validation=False)) == TRAINED
    assert len(trajectories(run.capture, validation=True)) == VALIDATED


def test_each_turn_and_each_tool_is_in_its_trajectory(run, record_property):
    turns = Counter()
    for one in trajectories(run.capture):
        calls, asked = one.of(semconv.SPAN_GENERATE_CLIENT), one.of(semconv.SPAN_TOOL)
        assert one.root.name == "invoke_agent tool_agent"
        assert len(calls) == len(one.of(semconv.SPAN_GENERATE_SERVER)) == one[semconv.ROLLOUT_MODEL_CALLS]
        assert len(asked) == one[semconv.ROLLOUT_TOOL_CALLS]
        assert {span.parent for span in (*calls, *asked)} == {one.root.id}
        sticky = [span.attributes.get(semconv.BALANCER_STICKY) for span in sorted(calls, key=lambda span: span.start)]
        assert sticky == [None] + [True] * (len(calls) - 1)
        turns[len(calls)] += 1
    record_property("trajectories by turns", dict(turns))
    assert len(turns) > 1


def test_tokens_of_the_engine_are_those_that_are_trained(run):
    equal = sum(one.server_tokens() == one[semconv.ROLLOUT_GENERATED_TOKENS] for one in trajectories(run.capture))
    uncut = [one for one in trajectories(run.capture) if one[semconv.ROLLOUT_RESPONSE_TOKENS] < 128]
    assert uncut
    assert all(one.server_tokens() == one[semconv.ROLLOUT_GENERATED_TOKENS] for one in uncut)
    assert equal >= len(uncut)
    with_tools = [one for one in uncut if one[semconv.ROLLOUT_TOOL_CALLS]]
    assert any(one[semconv.ROLLOUT_RESPONSE_TOKENS] > one[semconv.ROLLOUT_GENERATED_TOKENS] for one in with_tools)


def test_tools_say_how_they_ended(run):
    spans = [span for one in trajectories(run.capture) for span in one.of(semconv.SPAN_TOOL)]
    found = Counter((span.name, span.attributes[semconv.TOOL_OUTCOME], span.error) for span in spans)
    assert set(found) == {
        ("execute_tool count_words", tools.SUCCEEDED, False),
        ("execute_tool broken", tools.FAILED, True),
        ("execute_tool", tools.UNKNOWN, True),
        ("execute_tool count_words", tools.INVALID, True),
    }
    failed = found["execute_tool broken", tools.FAILED, True]
    assert counted(run.capture, semconv.EXECUTE_TOOL_DURATION.name, verl_tool_outcome=tools.FAILED)[0] == failed


def test_how_far_engine_and_trainer_are_apart_is_told_for_each(run):
    told = {one.span: one for one in run.capture.events if one.name == semconv.EVENT_MISMATCH}
    logged = dict(run.log)
    for step in (1, 2):
        mine = [one for one in trajectories(run.capture, validation=False) if one[semconv.STEP] == step]
        events = {one.key: told[one.root.id].attributes for one in mine}
        assert len(events) == len(mine) == TRAINED // 2
        for one in mine:
            (server,) = {(span.attributes["server.address"], span.attributes["server.port"]) for span in one.of("chat")}
            event = events[one.key]
            assert (event["server.address"], event["server.port"]) == server
            assert event[semconv.WEIGHTS_AGE] == 0
            # A response that ends in a tool's output, cut, has no token of the model's behind it.
            tokens = event[semconv.MISMATCH_TOKENS]
            assert 0 < len(tokens) <= one[semconv.ROLLOUT_RESPONSE_TOKENS]
            assert sum(value != 0 for value in tokens) <= one[semconv.ROLLOUT_GENERATED_TOKENS]
        weighted = sum(events[one.key][semconv.MISMATCH_MEAN] * one[semconv.ROLLOUT_GENERATED_TOKENS] for one in mine)
        mean = weighted / sum(one[semconv.ROLLOUT_GENERATED_TOKENS] for one in mine)
        assert mean == pytest.approx(logged[step]["training/rollout_probs_diff_mean"], rel=1e-3)


def test_vllms_metrics_are_those_of_its_page_though_its_log_stats_are_off(run, record_property):
    record_property("readings between pages", check(run))


def test_transfer_queues_metrics_are_those_of_its_page_where_the_user_has_one(run, record_property):
    record_property("readings between pages", check_queue(run, run.queue))


def test_nothing_that_was_said_left_the_run(run):
    sent = text_of(run.folder)
    assert [mark for mark in MARKS if mark in sent] == []


@pytest.mark.long
def test_what_was_said_is_in_its_place_where_it_was_asked_for(outspoken):
    assert outspoken.code == 0, outspoken.output[-3000:]
    assert problems(outspoken.capture, outspoken.log) == []
    sent = text_of(outspoken.folder)
    assert [mark for mark in (OUTPUT_MARK, ERROR_MARK, PROMPT) if mark not in sent] == []
    told = trajectories(outspoken.capture)
    assert all(PROMPT in one.root.attributes[semconv.GEN_AI_INPUT_MESSAGES] for one in told)
    for one in told:
        for call in one.of(semconv.SPAN_GENERATE_CLIENT):
            assert '"role": "assistant"' in call.attributes[semconv.GEN_AI_OUTPUT_MESSAGES]
        for call in one.of(semconv.SPAN_TOOL):
            assert semconv.GEN_AI_TOOL_ARGUMENTS in call.attributes
            assert call.attributes.get(semconv.GEN_AI_TOOL_NAME) != UNKNOWN_MARK
    said = [one for one in outspoken.capture.events if one.name == semconv.EVENT_MESSAGES]
    assert any(OUTPUT_MARK in one.attributes.get(semconv.GEN_AI_TOOL_RESULT, "") for one in said)


@pytest.mark.long
def test_a_sample_is_the_very_one_that_the_hash_says(outspoken):
    run_id = outspoken.capture.spans[0].resource[semconv.RUN_ID]
    dumped = {key for _, key in outspoken.generations("rollouts")}
    for step in (1, 2):
        sessions = [key.split("_")[:2] for at, key in outspoken.generations("rollouts") if at == step]
        shares = {(uid, int(session)): sampling.share(run_id, step, uid, int(session)) for uid, session in sessions}
        expected = {key for key, share in sorted(shares.items(), key=lambda one: one[1])[:5] if share < 0.5}
        mine = [one for one in trajectories(outspoken.capture, validation=False) if one[semconv.STEP] == step]
        assert {(one[semconv.SAMPLE_UID], one[semconv.ROLLOUT_SESSION]) for one in mine} == expected
    assert len(dumped) == TRAINED
    assert counted(outspoken.capture, semconv.INVOKE_AGENT_DURATION.name)[0] == TRAINED + VALIDATED
    calls, generated = counted(outspoken.capture, "gen_ai.client.token.usage", gen__ai_token_type="output")
    assert calls == counted(outspoken.capture, semconv.INVOKE_AGENT_MODEL_CALLS.name)[1]
    assert generated >= counted(outspoken.capture, semconv.ROLLOUT_TOKENS.name, verl_token_kind="generated")[1]
