"""Registries and pages of others as metric data: the same samples as their own text exposition, by their own names."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridged import of_metrics, of_text

client = pytest.importorskip("prometheus_client")
from prometheus_client import core  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from verl_otel import runtime  # noqa: E402
from verl_otel.bridges import families, prometheus  # noqa: E402

NOW = 2_000_000_000 * 10**9
LABELS = ("model_name", "engine")


@pytest.fixture
def registry():
    """One of every kind that there is, under names such as vLLM's."""
    found = client.CollectorRegistry()
    requests = client.Counter("vllm:requests", "Requests.", LABELS, registry=found)
    requests.labels("model", "0").inc(3)
    requests.labels("model", "1").inc(2**60)
    client.Counter("plain", "Without labels.", registry=found).inc(0.5)
    running = client.Gauge("vllm:running", "Running.", LABELS, registry=found)
    running.labels("model", "0").set(float("nan"))
    client.Gauge("of_a_function", "Asked for.", registry=found).set_function(lambda: 7)
    times = client.Histogram("vllm:ttft_seconds", "Times.", LABELS, registry=found, buckets=(0.1, 1, 5))
    for value in (0.05, 0.1, 0.5, 3, 100):
        times.labels("model", "0").observe(value)
    client.Histogram("never", "Observed by nobody.", ("a",), registry=found)
    client.Summary("sizes", "A summary.", ("a",), registry=found).labels("x").observe(4)
    client.Info("build", "Which it is.", registry=found).info({"version": "1"})
    client.Enum("state", "What it does.", states=["awake", "asleep"], registry=found).state("asleep")

    class Custom:
        def collect(self):
            yield core.GaugeMetricFamily("custom", "One of its own.", value=1)
            yield core.CounterMetricFamily("counted", "Another.", value=2)

    found.register(Custom())
    return found


def read(registry, **labels):
    return list(prometheus.Registry(lambda: registry, lambda: labels).read(NOW))


def same(found, expected):
    assert found.keys() == expected.keys()
    assert all(found[key] == value or value != value for key, value in expected.items())


def test_everything_is_as_in_its_own_exposition(registry):
    page = client.generate_latest(registry).decode()
    same(of_metrics(read(registry)), of_text(page))
    parsed = families.metrics_of(text_string_to_metric_families(page), {}, NOW, families.Series())
    same(of_metrics(parsed), of_text(page))


def test_names_have_no_unit_and_points_the_labels_of_whoever_reads(registry):
    for metric in read(registry, role="reward"):
        assert metric.unit == ""
        assert all(one.attributes["role"] == "reward" for one in metric.data.data_points)
        assert all(one.time_unix_nano == NOW for one in metric.data.data_points)


def test_engines_of_one_process_are_series_of_their_own(registry):
    (requests,) = (one for one in read(registry) if one.name == "vllm:requests_total")
    assert {one.attributes["engine"]: one.value for one in requests.data.data_points} == {"0": 3, "1": 2**60}
    assert requests.data.is_monotonic


def test_a_series_says_since_when_it_counts():
    registry, before = client.CollectorRegistry(), time.time_ns()
    counter = client.Counter("a", "A.", ("x",), registry=registry)
    counter.labels("1").inc()
    first = read(registry)[0].data.data_points[0].start_time_unix_nano
    assert before - 10**6 <= first <= time.time_ns()
    counter.clear()
    counter.labels("1").inc()
    assert read(registry)[0].data.data_points[0].start_time_unix_nano > first


def points(page, series, at):
    (metric,) = families.metrics_of(text_string_to_metric_families(page), {}, at, series)
    return [(one.start_time_unix_nano, getattr(one, "value", None)) for one in metric.data.data_points]


def test_a_page_without_such_times_counts_from_when_it_was_first_seen_or_went_down():
    series, page = families.Series(), "# TYPE a_total counter\na_total {}\n"
    assert points(page.format(5), series, 100) == [(100, 5)]
    assert points(page.format(9), series, 200) == [(100, 9)]
    assert points(page.format(2), series, 300) == [(200, 2)], "its process began anew after the last reading"
    assert points(page.format(3), series, 400) == [(200, 3)]


def test_a_page_that_says_when_is_believed():
    page = "# TYPE a_total counter\na_total 5\n# TYPE a_created gauge\na_created 1.5e9\n"
    assert points(page, families.Series(), NOW) == [(1_500_000_000 * 10**9, 5)]


def test_a_gauge_that_is_only_called_so_is_kept():
    assert points("# TYPE pod_created gauge\npod_created 3\n", families.Series(), NOW) == [(0, 3)]


def test_quantiles_of_a_summary_and_samples_of_no_type_are_kept():
    page = (
        "# TYPE s summary\n"
        's{quantile="0.5"} 1\ns{quantile="0.9"} 2\ns_sum 10\ns_count 4\n'
        "untyped_thing 3\n"
        "# TYPE cut histogram\n"
        'cut_bucket{le="1"} 2\ncut_sum 1\ncut_count 2\n'
    )
    found = of_metrics(families.metrics_of(text_string_to_metric_families(page), {}, NOW, families.Series()))
    expected = of_text(page)
    expected["cut_bucket", frozenset({("le", float("inf"))})] = 2
    assert found == expected


def test_metrics_of_several_processes_are_added_up(tmp_path):
    program = (
        "import prometheus_client as client, sys\n"
        "client.Counter('a', 'A.').inc(int(sys.argv[1]))\n"
        "client.Histogram('h', 'H.', buckets=(1, 2)).observe(1.5)\n"
    )
    several = {**os.environ, prometheus.MULTIPROCESS: str(tmp_path)}
    for amount in ("2", "3"):
        subprocess.run([sys.executable, "-c", program, amount], env=several, check=True)
    program = (
        "from verl_otel.bridges import prometheus\n"
        "import prometheus_client as client\n"
        "from bridged import of_metrics, of_text\n"
        "registry = prometheus.process_registry()\n"
        "found = of_metrics(prometheus.Registry(prometheus.process_registry).read(1))\n"
        "assert found == of_text(client.generate_latest(registry).decode()), found\n"
        "assert found['a_total', frozenset()] == 5 and found['h_count', frozenset()] == 2, found\n"
    )
    tests = Path(__file__).resolve().parents[1]
    subprocess.run([sys.executable, "-c", program], env={**several, "PYTHONPATH": str(tests)}, check=True)


def test_buckets_that_changed_while_they_were_read_count_nothing_less_than_nothing():
    page = "# TYPE h histogram\n" + "".join(
        f'h_bucket{{le="{bound}"}} {count}\n' for bound, count in (("1", 5), ("2", 4), ("+Inf", 6))
    )
    (metric,) = families.metrics_of(text_string_to_metric_families(page), {}, NOW, families.Series())
    (point,) = metric.data.data_points
    assert (list(point.bucket_counts), point.count, point.sum) == ([5, 0, 2], 7, None)


@pytest.fixture
def unbridged(monkeypatch):
    """What a test bridges isn't read in the tests after it."""
    monkeypatch.setattr(runtime, "_on_start", [*runtime._on_start])
    monkeypatch.setattr(prometheus, "_bridged", set())


def test_where_metrics_go_nowhere_an_engine_is_left_alone(unbridged, monkeypatch):
    from verl_otel.instrumentors import vllm

    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    monkeypatch.setattr(vllm._own, "active", True)
    assert made_with(vllm) == {"log_stats": False}


def test_an_engine_without_log_stats_gets_a_logger_that_says_nothing(recorded, unbridged, monkeypatch):
    from verl_otel.instrumentors import vllm

    monkeypatch.setattr(vllm._own, "active", True)
    given = made_with(vllm)
    (make,) = given.pop("stat_loggers")
    assert given == {"log_stats": False}
    logger = make(None, 0)
    assert logger.record(None, None, engine_idx=0) is logger.log() is logger.whatever_comes_later() is None
    assert made_with(vllm, log_stats=True) == {"log_stats": True}
    mine = [object()]
    assert made_with(vllm, stat_loggers=mine)["stat_loggers"] is mine


def made_with(vllm, **more):
    """What an engine's constructor is given, of keywords."""
    found = {}

    class Engine:
        def __init__(self, vllm_config, log_stats=True, stat_loggers=None):
            found.update({"log_stats": log_stats, "stat_loggers": stat_loggers})

    vllm.wrap_engine(Engine.__init__)(object.__new__(Engine), None, **{"log_stats": False, **more})
    return {key: value for key, value in found.items() if value is not None}
