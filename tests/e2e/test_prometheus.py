"""A real run's metrics through the real collector into the real Prometheus 3: names, values and others' dashboards."""

import time

import pytest
import requests

from e2e.asking import panels_without_data, rules_without_data
from programs import collector, prometheus
from recorder import read_capture
from verl_otel import semconv

pytestmark = pytest.mark.verl

MODEL = '{model_name=~".+"}'
QUANTILES = ("e2e_request_latency_seconds", "inter_token_latency_seconds", "time_to_first_token_seconds")
QUERIES = (
    *(
        f"histogram_quantile({share}, sum by(le) (rate(vllm:{name}_bucket{MODEL}[5m])))"
        for name in QUANTILES
        for share in (0.99, 0.95, 0.9, 0.5)
    ),
    *(f"rate(vllm:{name}_sum{MODEL}[5m]) / rate(vllm:{name}_count{MODEL}[5m])" for name in QUANTILES),
    *(f"rate(vllm:{name}_total{MODEL}[5m])" for name in ("prompt_tokens", "generation_tokens")),
    *(f"vllm:{name}{MODEL}" for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")),
    *(f"sum by(le) (increase(vllm:request_{name}_tokens_bucket{MODEL}[5m]))" for name in ("prompt", "generation")),
    f"sum by(finished_reason) (increase(vllm:request_success_total{MODEL}[5m]))",
    *(
        f"rate(vllm:request_{name}_sum{MODEL}[5m])"
        for name in ("queue_time_seconds", "prefill_time_seconds", "decode_time_seconds", "max_num_generation_tokens")
    ),
)
"""Those of vLLM's published Grafana dashboard (examples/observability/prometheus_grafana/grafana.json)."""


def moved(request, by):
    """A request of metrics whose points are `by` ns later."""
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in getattr(metric, metric.WhichOneof("data")).data_points:
                    point.time_unix_nano += by
                    point.start_time_unix_nano += by if point.start_time_unix_nano else 0
    return request.SerializeToString()


@pytest.fixture(scope="module")
def asked(by_program, tmp_path_factory):
    """(Prometheus with all metrics of the run as if it ended now, when that was in s since the epoch)."""
    folder = tmp_path_factory.mktemp("stack")
    with prometheus(folder) as store, collector(folder, store.url) as gateway:
        last = max(one.time for one in by_program.capture.points)
        ends = time.time_ns()
        with requests.Session() as sender:
            sender.headers["Content-Type"] = "application/x-protobuf"
            for signal, request in read_capture(by_program.folder / "capture.otlp"):
                if signal == "metrics":
                    sent = sender.post(f"{gateway.url}/v1/metrics", moved(request, ends - last), timeout=10)
                    assert sent.status_code == 200
        deadline = time.monotonic() + 60
        while not store.query("verl_step_snapshot == 1", time=ends / 1e9):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield store, ends / 1e9


@pytest.fixture(scope="module")
def settled(asked):
    """When rules, evaluated each 15 s, and the collector, which tells of itself as often, had their say (s)."""
    time.sleep(50)
    return time.time()


def test_engine_metrics_have_the_very_names_of_their_page(asked, by_program):
    store, _ = asked
    on_the_page = {name for name, _ in by_program.pages[-1].samples}
    assert {name for name in on_the_page if name.startswith("vllm:")} > {"vllm:num_requests_running"}
    assert on_the_page - store.names() == set()


def test_their_last_values_are_those_of_the_page(asked, by_program):
    store, ends = asked
    wrong = {}
    for (name, labels), value in by_program.pages[-1].samples.items():
        if name.startswith("vllm:") and not name.endswith("_bucket"):
            # Prometheus' own translation puts a word before a label that begins with an underscore.
            chosen = ",".join(f'{"key" if key.startswith("_") else ""}{key}="{one}"' for key, one in labels)
            found = [float(one["value"][1]) for one in store.query(f"{name}{{{chosen}}}", time=ends)]
            if found != [value]:
                wrong[name, labels] = (value, found)
    assert wrong == {}


@pytest.mark.parametrize("query", QUERIES)
def test_vllms_own_dashboard_shows_data(asked, query):
    store, ends = asked
    found = store.query(query, time=ends)
    assert found
    assert all(one["value"][1] != "NaN" for one in found)


def test_series_say_which_run_role_and_replica(asked, by_program):
    store, ends = asked
    (one,) = store.query("vllm:num_requests_running", time=ends)
    run_id = by_program.capture.spans[0].resource[semconv.RUN_ID]
    labels = one["metric"]
    assert (labels["verl_run_id"], labels["verl_role"], labels["verl_replica"]) == (run_id, "rollout", "0")


def test_gpus_hosts_queue_and_scalars_are_there_by_their_prometheus_names(asked):
    store, _ = asked
    assert {
        "hw_gpu_utilization_ratio",
        "hw_energy_joules_total",
        "hw_gpu_memory_usage_bytes",
        "system_cpu_time_seconds_total",
        "process_memory_usage_bytes",
        "tq_controller_request_total",
        "verl_actor_grad_norm",
        "verl_step_gpu_energy_joules",
        "verl_phase_duration_seconds_bucket",
    } <= store.names()


METRICS_ALONE_WERE_SENT = ("accepted_log_records", "accepted_spans", "traces_span_metrics_")


def test_every_panels_query_has_data_but_for_those_that_cannot_here(asked, settled):
    store, _ = asked
    assert panels_without_data(store, settled, METRICS_ALONE_WERE_SENT) == set()


def test_every_rule_is_in_health_and_reads_what_is_there(asked, settled):
    store, _ = asked
    assert [rule for group in store.get("rules")["groups"] for rule in group["rules"] if rule["health"] != "ok"] == []
    assert rules_without_data(store, settled, METRICS_ALONE_WERE_SENT) == set()
