"""Two runs at once, in two Ray clusters on one host: no series mixed, and the host's and GPUs' figures once each."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from observed import problems

from e2e.conftest import GPUS, observe
from stand_ins import compiled_nvml
from verl_otel import semconv
from verl_otel.semconv import hardware as names

pytestmark = [pytest.mark.verl, pytest.mark.long]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two of one step each, begun together, on a host with two GPUs of a stand-in."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "gpus").write_text(GPUS)
    machine = {
        "FAKE_NVML": str(folder / "gpus"),
        "LD_LIBRARY_PATH": str(compiled_nvml(folder)),
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
    }
    with ThreadPoolExecutor(2) as both:
        return list(both.map(lambda name: observe(folder / name, "auto", 1, machine), ("first", "second")))


def test_each_is_complete_by_itself(runs):
    for run in runs:
        assert run.code == 0, run.output[-3000:]
        assert problems(run.capture, run.log) == []


def test_no_signal_of_one_is_told_as_the_others(runs):
    ids = [{one.resource.get(semconv.RUN_ID) for one in (*run.capture.spans, *run.capture.points)} for run in runs]
    assert [len(one) for one in ids] == [1, 1]
    assert ids[0] != ids[1]
    instances = [{one.process for one in (*run.capture.spans, *run.capture.points)} for run in runs]
    assert not instances[0] & instances[1]
    for run in runs:
        engines = {one.process for one in run.capture.points if one.metric == "vllm:num_requests_running"}
        queues = {one.process for one in run.capture.points if one.metric == "tq_controller_request_total"}
        assert (len(engines), len(queues)) == (1, 1)


@pytest.mark.parametrize("metric", ["hw.gpu.utilization", "hw.energy", "system.cpu.time", "system.memory.usage"])
def test_gpus_and_host_are_told_once_at_any_time(runs, metric):
    found = [one for run in runs for one in run.capture.points if one.metric == metric]
    assert found
    for gpu in {one.attributes.get(names.HW_ID) for one in found}:
        spans = {}
        for one in (one for one in found if one.attributes.get(names.HW_ID) == gpu):
            first, last = spans.get(one.process, (one.time, one.time))
            spans[one.process] = min(first, one.time), max(last, one.time)
        ordered = sorted(spans.values())
        assert all(before[1] < after[0] for before, after in itertools.pairwise(ordered))
