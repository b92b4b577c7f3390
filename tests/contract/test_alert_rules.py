"""Every alert fires on what it is for, and is quiet on what looks like it; checked by Prometheus' own promtool."""

import json
import shutil
import subprocess

import pytest
import yaml

from conftest import ROOT

RULES = sorted((ROOT / "src" / "verl_otel" / "stack" / "prometheus" / "rules").glob("*.yaml"))
RUN = 'verl_run_id="r"'


def of(name, values, **labels):
    """A series of a run, one value each 15 s, in promtool's notation."""
    text = ",".join([RUN, *(f'{key}="{value}"' for key, value in labels.items())])
    return {"series": f"{name}{{{text}}}", "values": values}


def scores(values):
    return [of("verl_critic_score", values, verl_statistic="mean")]


def timing(phase, values):
    return of("verl_timing_seconds", values, verl_phase=phase)


def opened(phase, values, **labels):
    return of("verl_phase_open_duration_seconds", values, verl_phase=phase, **labels)


def idle(replica, values):
    return of("verl_replica_idle_ratio", values, verl_role="rollout", verl_replica=replica)


def gap(seconds):
    return [
        of("verl_phase_straggler_gap_seconds", f"{seconds}x100", verl_phase="gen", verl_role="a"),
        timing("gen", "10x100"),
    ]


def cache(peak, preemptions):
    who = {"verl_role": "rollout", "verl_replica": "0"}
    return [
        of("verl_engine_kv_cache_peak_ratio", f"{peak}x60", **who),
        of("vllm:num_preemptions_total", preemptions, **who),
    ]


def stale(late):
    buckets = {"1": 100 - late, "4": 100 - late, "16": 100, "+Inf": 100}
    return [of("verl_rollout_staleness_bucket", f"0+{count}x100", le=bound) for bound, count in buckets.items()]


NOISE = "0.5 0.51 0.49 0.5 0.52 0.48 0.5 0.5"
STEADY = " ".join([NOISE] * 30)
CASES = {
    "VerlRolloutAndTrainerDisagree": (
        [of("verl_training_rollout_probs_diff_mean", "0.006x60")],
        [of("verl_training_rollout_probs_diff_mean", "0.004x60")],
    ),
    "VerlRolloutAndTrainerDisagreeBadly": (
        [of("verl_training_rollout_probs_diff_mean", "0.02x60")],
        [of("verl_training_rollout_probs_diff_mean", "0.009x60")],
    ),
    "VerlCorrelationFalls": (
        [of("verl_training_rollout_actor_probs_pearson_corr", "0.98-0.0005x200")],
        [of("verl_training_rollout_actor_probs_pearson_corr", "0.98+0.00001x200")],
    ),
    "VerlRewardCollapsed": (scores(f"{STEADY} {'0.1 ' * 40}"), scores(STEADY)),
    "VerlEntropyCollapsed": ([of("verl_actor_entropy", "2x100 0.1x100")], [of("verl_actor_entropy", "2x100 0.5x100")]),
    "VerlKlBlowsUp": (
        [of("verl_actor_ppo_kl", f"{'0.01 0.02 ' * 100} {'2 ' * 30}")],
        [of("verl_actor_ppo_kl", f"{'0.01 0.02 ' * 100} {'0.05 ' * 30}")],
    ),
    "VerlGradientSpikes": ([of("verl_actor_grad_norm", "1x200 20x4")], [of("verl_actor_grad_norm", "1x200 5x4")]),
    "VerlNotFinite": (
        [of("verl_metric_nonfinite_total", "0x40 1x10", verl_metric_key="actor/grad_norm")],
        [of("verl_metric_nonfinite_total", "3x50", verl_metric_key="actor/grad_norm")],
    ),
    "VerlClipsMuch": ([of("verl_actor_pg_clipfrac_ratio", "0.5x80")], [of("verl_actor_pg_clipfrac_ratio", "0.1x80")]),
    "VerlResponsesAtTheirLimit": (
        [of("verl_response_length_clip_ratio", "0.5x80")],
        [of("verl_response_length_clip_ratio", "0.05x80")],
    ),
    "VerlGroupsTeachNothing": (
        [of("verl_group_zero_variance_ratio", "0.45x120", verl_group_signal=one) for one in ("all_right", "all_wrong")],
        [of("verl_group_zero_variance_ratio", "0.3x120", verl_group_signal=one) for one in ("all_right", "all_wrong")],
    ),
    "VerlStale": (stale(20), stale(2)),
    "VerlPhaseStuck": (
        [opened("gen", "0+15x100"), timing("gen", "60x100")],
        [opened("gen", "0+15x100"), timing("gen", "900x100"), opened("step", "0+15x100")],
    ),
    "VerlRankStraggles": (gap(4), gap(1)),
    "VerlReplicaIdle": ([idle(0, "1x60"), idle(1, "0.1x60")], [idle(0, "1x60"), idle(1, "0.9x60")]),
    "VerlReplicaGone": (
        [idle(0, "0.1x200"), idle(1, "0.1x60 stale")],
        [idle(0, "0.1x200"), idle(1, "0.1x200")],
    ),
    "VerlCacheFull": (cache(0.99, "0+1x60"), cache(0.99, "5x60")),
    "VerlWeightSyncSlow": (
        [timing("update_weights", "10x200 40x60")],
        [timing("update_weights", "10x200 15x60")],
    ),
    "VerlSamplesLost": (
        [of("verl_rollout_missing_total", "0x40 3x10", verl_validation="false")],
        [of("verl_rollout_missing_total", "0x50", verl_validation="false")],
    ),
    "VerlRunVanished": (
        [of("verl_run_info", "1x40 stale")],
        [of("verl_run_info", "1x40 stale"), of("verl_run_ended", "_x39 1 stale", verl_run_outcome="finished")],
    ),
    "VerlGpuThrottled": (
        [of("verl_gpu_throttled", "1x60", host_name="h", verl_gpu_index="0", verl_gpu_throttle_reason="thermal")],
        [of("verl_gpu_throttled", "1x60", host_name="h", verl_gpu_index="0", verl_gpu_throttle_reason="power_cap")],
    ),
    "VerlXid": (
        [of("hw_errors_total", "0x40 1x10", host_name="h", hw_id="g", error_type="xid_79")],
        [of("hw_errors_total", "0x40 9x10", host_name="h", hw_id="g", error_type="corrected")],
    ),
    "VerlGpuLost": (
        [of("hw_status", "0x20 1x10", host_name="h", hw_id="g", hw_state="failed")],
        [of("hw_status", "1x30", host_name="h", hw_id="g", hw_state="ok")],
    ),
    "VerlHostMemoryFull": (
        [of("system_memory_utilization_ratio", "0.95x60", host_name="h", state="used")],
        [
            of("container_memory_usage_bytes", "50x60", host_name="h"),
            of("verl_host_memory_limit_bytes", "100x60", host_name="h"),
        ],
    ),
    "VerlTelemetryLost": (
        [of("verl_telemetry_dropped_total", "0x40 7x10", verl_telemetry_reason="queue_full")],
        [of("verl_telemetry_dropped_total", "0x50", verl_telemetry_reason="none")],
    ),
    "VerlTelemetryLate": (
        [of("verl_telemetry_queue_size_bytes", "30000000x60")],
        [of("verl_telemetry_queue_size_bytes", "30000x60")],
    ),
    "VerlCollectorSheds": (
        [{"series": 'otelcol_receiver_refused_metric_points_total{receiver="otlp"}', "values": "0x40 5x10"}],
        [{"series": 'otelcol_receiver_refused_metric_points_total{receiver="otlp"}', "values": "0x50"}],
    ),
}
LAST = {"VerlReplicaGone": 80, "VerlRunVanished": 60}
"""At which point, of 15 s each, an alert is asked for, where that isn't the last of its series."""


def alerts():
    groups = [group for path in RULES for group in yaml.safe_load(path.read_text())["groups"]]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


@pytest.fixture(scope="module")
def promtool():
    if (found := shutil.which("promtool")) is None:
        pytest.skip("left out: there is no promtool here (Debian's package prometheus has it)")
    return found


def test_every_alert_is_tried_and_described():
    assert alerts().keys() == CASES.keys()
    documented = (ROOT / "docs" / "alerts.md").read_text()
    for name, rule in alerts().items():
        page, anchor = rule["annotations"]["runbook"].split("#")
        assert page == "docs/alerts.md"
        assert f"\n## {name.removesuffix('Badly')}" in documented
        assert anchor == name.removesuffix("Badly").lower()
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_rules_are_prometheuss(promtool):
    done = subprocess.run([promtool, "check", "rules", *RULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def length(values):
    """Points of a series in promtool's notation."""
    parts = (one.partition("x") for one in values.split())
    return sum(int(times) + 1 if times and one != "stale" else 1 for one, _, times in parts)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("fires", [True, False], ids=["fires", "is quiet"])
def test_an_alert(promtool, name, fires, tmp_path):
    series = CASES[name][0 if fires else 1]
    last = LAST.get(name, max(length(one["values"]) for one in series) - 1)
    asked = {
        "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) > bool 0',
        "eval_time": f"{15 * last}s",
        "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
    }
    test = {"interval": "15s", "input_series": series, "promql_expr_test": [asked]}
    written = tmp_path / "test.yaml"
    whole = {"rule_files": [str(path) for path in RULES], "evaluation_interval": "15s", "tests": [test]}
    written.write_text(json.dumps(whole))
    done = subprocess.run([promtool, "test", "rules", str(written)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
