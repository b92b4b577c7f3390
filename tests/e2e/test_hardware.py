"""A real run on a machine with two GPUs of a stand-in: what they, the host and the processes did, and what it means."""

import itertools

import pytest

from e2e.conftest import ROOT
from e2e.rollouts import total
from verl_otel import semconv
from verl_otel.semconv import hardware as names
from verl_otel.telemetry.figures import KEY

pytestmark = pytest.mark.verl

SYSTEM = "opentelemetry.instrumentation.system_metrics"
IDLE = {"GPU-stand-in-0": 0.75, "GPU-stand-in-1": 0.25}


def points(run, metric):
    return [one for one in run.capture.points if one.metric == metric]


def test_each_gpu_is_told_by_one_process_at_a_time(by_program):
    for gpu in IDLE:
        mine = [one for one in points(by_program, "hw.gpu.utilization") if one.attributes[names.HW_ID] == gpu]
        assert mine
        spans = {}
        for one in mine:
            first, last = spans.get(one.process, (one.time, one.time))
            spans[one.process] = min(first, one.time), max(last, one.time)
        ordered = sorted(spans.values())
        assert all(before[1] < after[0] for before, after in itertools.pairwise(ordered))


def test_processes_say_their_role_and_rank(by_program):
    found = {one.attributes.get(semconv.ROLE) for one in points(by_program, "process.memory.usage")}
    assert {"driver", "trainer", "agent_loop", "reward", "rollout"} <= found
    workers = [one for one in points(by_program, "process.memory.usage") if semconv.RANK in one.attributes]
    assert {one.attributes[semconv.RANK] for one in workers} == {0}


def test_rays_object_store_is_told(by_program):
    assert {one.value for one in points(by_program, names.OBJECT_STORE_LIMIT.name)} == {1_000_000_000}
    # What so small a run hands on is kept beside the store.
    assert {0 <= one.value < 1_000_000_000 for one in points(by_program, names.OBJECT_STORE_USAGE.name)} == {True}


def documented():
    """Series for each thing, by docs/engines-and-hardware.md."""
    text = (ROOT / "docs" / "engines-and-hardware.md").read_text().partition("## How many series")[2]
    rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return {what: int(count) for what, count in rows if count.isdigit()}


def series(run, *scopes, of=lambda point: True):
    """Series that Prometheus makes of what these scopes sent, buckets counted, by process."""
    found = {}
    for point in run.capture.points:
        if point.scope in scopes and of(point):
            key = point.metric, tuple(sorted(point.attributes.items()))
            found.setdefault(point.process, {})[key] = len(point.bucket_counts) + 2 if point.bucket_counts else 1
    return [sum(counts.values()) for counts in found.values()]


def test_there_are_no_more_series_than_the_docs_say(by_program):
    said = documented()
    processes = ("verl.telemetry.", "otel.sdk.", "process.", "verl.run.")
    calls = {
        (one.attributes[semconv.ROLE], one.attributes[semconv.WORKER_METHOD])
        for one in points(by_program, semconv.WORKER_DURATION.name)
    }
    real = {
        "vLLM engine core (0.27)": max(series(by_program, "prometheus_client")),
        "TransferQueue controller": max(series(by_program, "transfer_queue.controller")),
        "TransferQueue storage unit": max(series(by_program, "transfer_queue.storage")),
        "GPU": max(series(by_program, "verl_otel.gpus")) / 2,
        "host, with its object store": max(series(by_program, "verl_otel.host", SYSTEM, "verl_otel.object_store")),
        "process": max(series(by_program, semconv.SCOPE, of=lambda one: one.metric.startswith(processes))),
        "worker rank, for each registered method": max(
            series(by_program, semconv.SCOPE, of=lambda one: one.metric == semconv.WORKER_DURATION.name)
        )
        / len(calls),
    }
    assert {what: (count, said[what]) for what, count in real.items() if not said[what] / 3 < count <= said[what]} == {}


def test_a_steps_energy_is_what_its_gpus_drew(by_program):
    (step,) = (one for one in by_program.capture.spans if one.name == semconv.SPAN_STEP)
    told = {one.value for one in points(by_program, semconv.STEP_ENERGY.name)}
    (energy,) = (one for one in told if one > 0 and one == max(told))
    # 400 W, from the last sample before the step before to the last before its log: each some seconds old.
    assert energy == pytest.approx(400 * step.seconds, abs=400 * 8)


def test_idle_shares_are_by_phase_and_gpu(by_program):
    told = {
        (one.attributes[semconv.PHASE], one.attributes[names.HW_ID]): one.value
        for one in points(by_program, semconv.GPU_IDLE.name)
    }
    assert {phase for phase, _ in told} & {"step", "gen"}
    assert all(value == pytest.approx(IDLE[gpu]) for (_, gpu), value in told.items())


def test_throughput_is_verls_own(by_program):
    logged = dict(by_program.log)[1]
    rate = total(by_program.capture, semconv.STEP_THROUGHPUT, verl_throughput="effective")
    assert rate == pytest.approx(logged["perf/total_num_tokens"] / logged["perf/time_per_step"])
    each = total(by_program.capture, semconv.STEP_GPU_THROUGHPUT, verl_throughput="effective")
    assert each == pytest.approx(logged["perf/throughput"])
    kinds = {one.attributes[semconv.THROUGHPUT] for one in points(by_program, semconv.STEP_THROUGHPUT.name)}
    assert kinds == {"effective", "trainer", "rollout"}


def test_verls_loggers_got_the_figures_too(by_program):
    logged = dict(by_program.log)[1]
    ours = {key for key in logged if key.startswith(KEY)}
    assert {KEY + "gpu_energy_j", KEY + "tokens_per_s/effective", KEY + "engine/running_peak"} <= ours
    assert logged[KEY + "engine/running_limit"] == 32
    assert 0 < logged[KEY + "engine/running_peak"] <= 16


def test_an_engines_peak_is_told_beside_its_limit(by_program):
    assert {one.value for one in points(by_program, semconv.ENGINE_RUNNING_LIMIT.name)} == {32}
    assert 0 < max(one.value for one in points(by_program, semconv.ENGINE_RUNNING_PEAK.name)) <= 16
    assert 0 < max(one.value for one in points(by_program, semconv.ENGINE_KV_PEAK.name)) < 1
