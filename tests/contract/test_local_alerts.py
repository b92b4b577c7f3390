"""The embedded backend's alerts are Prometheus' own: the same names, limits and patience, tried by the same cases."""

import re
from collections import defaultdict

import pytest

from contract.test_alert_rules import CASES, alerts, length
from local_rows import Rows, at, ms
from verl_otel import semconv
from verl_otel.local.queries.alerts import NOT_OF_A_RUN, RULES, firing
from verl_otel.semconv import hardware

INTERVAL = 15
BY_NAME = {rule.name: rule for rule in RULES}
PATIENCE = {"VerlReplicaGone": 100, "VerlRunVanished": 40}
"""Which point of its series an alert is asked for, where that isn't the last: no database has markers of staleness."""

SCALARS = {
    "verl_training_rollout_probs_diff_mean": "training/rollout_probs_diff_mean",
    "verl_training_rollout_actor_probs_pearson_corr": "training/rollout_actor_probs_pearson_corr",
    "verl_critic_score": "critic/score/{verl_statistic}",
    "verl_actor_entropy": "actor/entropy",
    "verl_actor_ppo_kl": "actor/ppo_kl",
    "verl_actor_grad_norm": "actor/grad_norm",
    "verl_actor_pg_clipfrac_ratio": "actor/pg_clipfrac",
    "verl_response_length_clip_ratio": "response_length/clip_ratio",
    "verl_timing_seconds": "timing_s/{verl_phase}",
}
GAUGES = {
    "verl_group_zero_variance_ratio": semconv.GROUP_ZERO_VARIANCE,
    "verl_phase_open_duration_seconds": semconv.OPEN_DURATION,
    "verl_phase_straggler_gap_seconds": semconv.STRAGGLER_GAP,
    "verl_replica_idle_ratio": semconv.REPLICA_IDLE,
    "verl_engine_kv_cache_peak_ratio": semconv.ENGINE_KV_PEAK,
    "verl_run_info": semconv.RUN_INFO,
    "verl_run_ended": semconv.RUN_ENDED,
    "verl_gpu_throttled": hardware.GPU_THROTTLED,
    "hw_status": hardware.STATUS,
    "container_memory_usage_bytes": hardware.CONTAINER_MEMORY,
    "verl_host_memory_limit_bytes": hardware.HOST_MEMORY_LIMIT,
    "verl_telemetry_queue_size_bytes": semconv.TELEMETRY_QUEUE,
}
COUNTERS = {
    "verl_metric_nonfinite_total": semconv.METRIC_NONFINITE,
    "verl_rollout_missing_total": semconv.ROLLOUT_MISSING,
    "hw_errors_total": hardware.ERRORS,
    "verl_telemetry_dropped_total": semconv.TELEMETRY_DROPPED,
}
LABELS = {one.replace(".", "_"): one for one in semconv.ATTRIBUTES}


def values(text):
    """promtool's notation as numbers; None where nothing was told."""
    found = []
    for part in text.split():
        begun = re.fullmatch(r"(-?[\d.]+)(?:([+-][\d.]+))?(?:x(\d+))?", part)
        if begun is None:
            missing = re.fullmatch(r"_(?:x(\d+))?", part)
            found += [None] * (int(missing[1] or 0) + 1 if missing else 1)
            continue
        first, step, times = float(begun[1]), float(begun[2] or 0), int(begun[3] or 0)
        found += [first + step * place for place in range(times + 1)]
    return found


def database(series):
    rows = Rows()
    rows.process(1, host="h")
    buckets = defaultdict(dict)
    for one in series:
        name, text = re.fullmatch(r"([\w:]+)\{(.*)\}", one["series"]).groups()
        labels = dict(re.findall(r'(\w+)="([^"]*)"', text))
        told = [(place * INTERVAL, value) for place, value in enumerate(values(one["values"])) if value is not None]
        attributes = {LABELS.get(key, key): value for key, value in labels.items() if key not in ("host_name", "le")}
        if name in SCALARS:
            rows.scalars(SCALARS[name].format(**labels), [(place, *each) for place, each in enumerate(told)])
        elif name == "verl_rollout_staleness_bucket":
            buckets[float(labels["le"])] = dict(told)
        elif name in COUNTERS or name.endswith("_total"):
            rows.counter(COUNTERS[name].name if name in COUNTERS else name, told, attributes)
        else:
            metric = GAUGES[name].name if name in GAUGES else "system.memory.utilization"
            rows.points(metric, told, attributes)
    if buckets:
        bounds = sorted(buckets)
        sums = [(second, [buckets[one][second] for one in bounds]) for second in buckets[bounds[0]]]
        counts = [(second, [int(b - a) for a, b in zip([0, *each], each, strict=False)]) for second, each in sums]
        rows.histogram(semconv.ROLLOUT_STALENESS.name, bounds[:-1], counts)
    return rows


def fired(name, series):
    last = PATIENCE.get(name, max(length(one["values"]) for one in series) - 1)
    vanished = name == "VerlRunVanished"
    ended = any(one["series"].startswith("verl_run_ended") for one in series)
    now = at(last * INTERVAL + 900) if vanished else None
    return {one["name"]: one for one in firing(database(series).cursor(), at(last * INTERVAL), now=now, ended=ended)}


@pytest.mark.parametrize("name", sorted(BY_NAME))
@pytest.mark.parametrize("fires", [True, False], ids=["fires", "is quiet"])
def test_an_alert_fires_on_what_prometheus_fires_on(name, fires):
    found = fired(name, CASES[name][0 if fires else 1])
    assert (name in found) is fires
    if fires:
        assert "{" not in found[name]["summary"]
        assert found[name]["since"] <= ms(10_000)


def numbers(expression):
    """The limits of an expression: its numbers, products as one, without those in names, labels and windows."""
    plain = re.sub(r"\{[^}]*\}|\[[^]]*\]|\"[^\"]*\"|offset \w+", "", expression)
    product = re.compile(r"\b(\d+) \* (\d+)\b")
    while found := product.search(plain):
        plain = plain.replace(found[0], str(int(found[1]) * int(found[2])))
    return sorted(float(one) for one in re.findall(r"(?<![\w:.])\d+(?:\.\d+)?(?![\w.])", plain))


def test_each_alert_of_prometheus_is_here_or_has_a_reason_not_to_be():
    assert BY_NAME.keys() | NOT_OF_A_RUN.keys() == alerts().keys()
    assert not BY_NAME.keys() & NOT_OF_A_RUN.keys()
    assert all(NOT_OF_A_RUN.values())


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_limits_patience_and_severity_are_prometheus_own(name):
    rule, wanted = BY_NAME[name], alerts()[name]
    # A replica that is gone, and a run, are told by what is no longer there.
    limits = [] if name in ("VerlReplicaGone", "VerlRunVanished") else numbers(wanted["expr"])
    assert sorted(map(float, rule.limits)) == limits
    assert f"{rule.minutes}m" == wanted.get("for", "0m")
    assert rule.severity == wanted["labels"]["severity"]
    assert rule.runbook == wanted["annotations"]["runbook"]


def test_an_alert_says_whom_it_is_about_and_since_when():
    rows = Rows()
    rows.process(1, host="h")
    rows.points(
        hardware.GPU_THROTTLED.name,
        [(second, 1.0 if second >= 600 else 0.0) for second in range(0, 1200, 15)],
        {hardware.GPU_INDEX: 3, hardware.GPU_THROTTLE_REASON: "thermal"},
    )
    (found,) = firing(rows.cursor(), at(1185))
    assert found == {
        "name": "VerlGpuThrottled",
        "severity": "warning",
        "summary": "GPU 3 of h is held down",
        "since": ms(600),
        "runbook": "docs/alerts.md#verlgputhrottled",
    }
    assert firing(rows.cursor(), at(600 + 299)) == [], "not for five minutes yet"


def test_a_database_with_nothing_in_it_fires_nothing():
    assert firing(Rows().cursor(), at(100)) == []
