"""verl's keys as names, units and attributes; the expectations are written out, not computed."""

import pytest

from verl_otel import semconv
from verl_otel.instrumentors.metric_keys import describe


@pytest.mark.parametrize(
    ("key", "name", "unit", "attributes", "scale"),
    [
        ("actor/grad_norm", "verl.actor.grad_norm", "", {}, 1),
        ("actor/entropy", "verl.actor.entropy", "{nat}", {}, 1),
        ("actor/pg_clipfrac_lower", "verl.actor.pg_clipfrac_lower", "1", {}, 1),
        ("critic/score/mean", "verl.critic.score", "", {"verl.statistic": "mean"}, 1),
        ("response_length/max", "verl.response_length", "{token}", {"verl.statistic": "max"}, 1),
        ("response_length/clip_ratio", "verl.response_length.clip_ratio", "1", {}, 1),
        ("global_seqlen/minmax_diff", "verl.global_seqlen.minmax_diff", "{token}", {}, 1),
        ("perf/throughput", "verl.perf.throughput", "{token}/s", {}, 1),
        ("perf/mfu/actor", "verl.perf.mfu.actor", "1", {}, 1),
        ("timing_s/update_actor", "verl.timing", "s", {"verl.phase": "update_actor"}, 1),
        ("timing_per_token_ms/gen", "verl.timing_per_token", "s", {"verl.phase": "gen"}, 1e-3),
        (
            "timing_s/agent_loop/tool_calls/max",
            "verl.timing",
            "s",
            {"verl.phase": "agent_loop/tool_calls", "verl.statistic": "max"},
            1,
        ),
        (
            "timing_s/agent_loop/num_preempted/mean",
            "verl.agent_loop.num_preempted",
            "{preemption}",
            {"verl.statistic": "mean"},
            1,
        ),
        ("timing_s/agent_loop/slowest/prompt_length", "verl.agent_loop.slowest.prompt_length", "{token}", {}, 1),
        (
            "val-core/openai/gsm8k/acc/best@4/mean",
            "verl.val_core",
            "",
            {"verl.data_source": "openai/gsm8k", "verl.variable": "acc", "verl.statistic": "best@4/mean"},
            1,
        ),
        (
            "val-aux/tiny_sum/reward/mean@1",
            "verl.val_aux",
            "",
            {"verl.data_source": "tiny_sum", "verl.variable": "reward", "verl.statistic": "mean@1"},
            1,
        ),
        ("val-aux/num_turns/min", "verl.val_aux.num_turns", "", {"verl.statistic": "min"}, 1),
        ("actor/perf/max_memory_allocated_gb", "verl.actor.perf.max_memory_allocated", "By", {}, 1024**3),
        ("checkpoint_engine/payload_mbytes", "verl.checkpoint_engine.payload", "By", {}, 1024**2),
        ("训练/损失 A:b@c", "verl.__.__ a:b@c".replace(" ", "_").replace(":", "_").replace("@", "_"), "", {}, 1),
        ("dynamic_resource/train_compute_time_s", "verl.dynamic_resource.train_compute_time", "s", {}, 1),
        (
            "separate_async/decision/per_sample_time_seconds",
            "verl.separate_async.decision.per_sample_time",
            "s",
            {},
            1,
        ),
        ("train/total_tokens(B)", "verl.train.total_tokens", "{token}", {}, 1e9),
        ("train/mfu", "verl.train.mfu", "1", {}, 1),
        ("phase/active", "verl.key.phase.active", "", {}, 1),
        ("step", "verl.key.step", "", {}, 1),
    ],
)
def test_key(key, name, unit, attributes, scale):
    found = describe(key)
    assert (found.name, found.unit, dict(found.attributes), found.scale) == (name, unit, attributes, scale)


def test_no_key_lands_on_a_name_of_ours():
    for name in semconv.METRICS:
        if name.startswith("verl."):
            assert describe(name.removeprefix("verl.").replace(".", "/")).name not in semconv.METRICS


def test_names_stay_within_opentelemetrys_length():
    assert len(describe("a/" * 500).name) <= 255
