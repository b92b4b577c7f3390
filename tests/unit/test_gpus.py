"""GPUs, through the real Python binding and a stand-in for the driver's library: every figure, and every failure."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stand_ins import compiled_nvml

pytest.importorskip("pynvml")
EIGHT = "gpus 8\n"
READER = """
import json, sys, time
from verl_otel.hardware.gpus import Gpus
gpus = Gpus(lambda: {4242: {"verl.role": "actor_rollout", "verl.rank": 3}})
for line in sys.stdin:
    try:
        found = [
            [metric.name, metric.unit, dict(point.attributes), point.value]
            for metric in gpus.read(time.time_ns()) for point in metric.data.data_points
        ]
    except Exception as error:
        found = type(error).__name__
    print(json.dumps(found), flush=True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compiled_nvml(tmp_path_factory.mktemp("nvml"))


class Reader:
    """A process that reads the GPUs at each question; what they do stands in a file that can be changed meanwhile."""

    def __init__(self, library, state):
        self.state = state
        environment = {**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(state)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", READER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self, state=None):
        """(name, unit, labels, value) of each point, or the name of what it raised."""
        if state is not None:
            self.state.write_text(state)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def values(self, name, state=None, **labels):
        """Values of a metric by GPU, of the points that have these labels."""
        wanted = {key.replace("_", "."): value for key, value in labels.items()}
        return {
            one["hw.id"]: value
            for found, _, one, value in self.read(state)
            if found == name and wanted.items() <= one.items()
        }


@pytest.fixture
def reader(library, tmp_path):
    made = Reader(library, tmp_path / "state")
    yield made
    made.process.kill()
    made.process.wait()


def gpu(number):
    return f"GPU-stand-in-{number}"


def test_eight_gpus_tell_everything(reader):
    found = reader.read(EIGHT)
    names = {name: unit for name, unit, _, _ in found}
    assert names == {
        "hw.gpu.utilization": "1",
        "hw.gpu.memory.usage": "By",
        "hw.gpu.memory.limit": "By",
        "hw.gpu.memory.utilization": "1",
        "hw.gpu.io": "By",
        "hw.energy": "J",
        "hw.power": "W",
        "hw.temperature": "Cel",
        "hw.errors": "{error}",
        "hw.status": "1",
        "verl.gpu.power.limit": "W",
        "verl.gpu.clock.frequency": "Hz",
        "verl.gpu.throttled": "",
        "verl.gpu.throttle.time": "s",
        "verl.gpu.info": "",
    }
    assert all(one["hw.type"] == "gpu" for _, _, one, _ in found)
    assert {one["hw.id"] for _, _, one, _ in found} == {gpu(number) for number in range(8)}


def test_figures_are_in_base_units(reader):
    at = "gpus 1\nutilization 0 42\npower 0 350000\n"
    assert reader.values("hw.gpu.utilization", at) == {gpu(0): pytest.approx(0.42)}
    assert reader.values("hw.power") == {gpu(0): 350}
    assert reader.values("verl.gpu.power.limit") == {gpu(0): 700}
    assert reader.values("hw.temperature") == {gpu(0): 60}
    assert reader.values("hw.gpu.memory.usage") == {gpu(0): 1 << 30}
    assert reader.values("hw.gpu.memory.utilization") == {gpu(0): 1 / 80}
    assert reader.values("verl.gpu.clock.frequency", verl_gpu_clock="sm") == {gpu(0): 1.98e9}
    assert reader.values("verl.gpu.throttled", verl_gpu_throttle_reason="power_cap") == {gpu(0): 1}
    assert reader.values("verl.gpu.throttled", verl_gpu_throttle_reason="thermal") == {gpu(0): 0}
    assert reader.values("verl.gpu.throttle.time", verl_gpu_throttle_reason="thermal") == {gpu(0): 2}
    assert reader.values("hw.errors", error_type="corrected") == {gpu(0): 7}
    assert reader.values("hw.gpu.io", verl_gpu_link="pcie", network_io_direction="transmit") == {gpu(0): 197000}
    assert reader.values("hw.gpu.io", verl_gpu_link="nvlink", network_io_direction="transmit") == {gpu(0): 138000 << 10}
    assert reader.values("hw.gpu.io", verl_gpu_link="nvlink", network_io_direction="receive") == {}, "it was refused"


def test_energy_is_what_the_power_came_to(reader):
    before = reader.values("hw.energy", "gpus 1\npower 0 1000000\n")[gpu(0)]
    after = reader.values("hw.energy")[gpu(0)]
    assert 0 <= after - before < 5000  # joules of less than 5 s


def test_a_processs_memory_has_its_role_and_rank(reader):
    found = reader.read("gpus 1\nprocess 0 4242 1000\nprocess 0 17 5\n")
    of = {one["process.pid"]: (one, value) for name, _, one, value in found if name == "verl.gpu.process.memory.usage"}
    assert of[4242][1] == 1000
    assert (of[4242][0]["verl.role"], of[4242][0]["verl.rank"]) == ("actor_rollout", 3)
    assert "verl.role" not in of[17][0]


def test_each_xid_error_is_counted_by_number(reader):
    reader.read(EIGHT)
    assert reader.values("hw.errors", f"{EIGHT}xid 2 79\nxid 2 79\nxid 5 31\n", error_type="xid_79") == {gpu(2): 2}
    assert reader.values("hw.errors", error_type="xid_31") == {gpu(5): 1}
    assert reader.values("hw.errors", error_type="xid_79") == {gpu(2): 2}, "counted once"


def test_mig_devices_are_parts_of_their_gpu(reader):
    found = reader.read("gpus 2\nmig 1 3\n")
    parts = {one["hw.id"]: one for name, _, one, _ in found if name == "hw.gpu.memory.usage" and "hw.parent" in one}
    assert parts.keys() == {f"MIG-stand-in-1-{number}" for number in range(3)}
    assert {one["hw.parent"] for one in parts.values()} == {gpu(1)}
    assert {one["hw.id"] for name, _, one, _ in found if name == "hw.power"} == {gpu(0), gpu(1)}


CALLS = {
    "nvmlDeviceGetUtilizationRates": "hw.gpu.utilization",
    "nvmlDeviceGetMemoryInfo": "hw.gpu.memory.usage",
    "nvmlDeviceGetPowerUsage": "hw.power",
    "nvmlDeviceGetTotalEnergyConsumption": "hw.energy",
    "nvmlDeviceGetEnforcedPowerLimit": "verl.gpu.power.limit",
    "nvmlDeviceGetTemperature": "hw.temperature",
    "nvmlDeviceGetClockInfo": "verl.gpu.clock.frequency",
    "nvmlDeviceGetCurrentClocksEventReasons": "verl.gpu.throttled",
    "nvmlDeviceGetViolationStatus": "verl.gpu.throttle.time",
    "nvmlDeviceGetTotalEccErrors": "hw.errors",
    "nvmlDeviceGetFieldValues": "hw.gpu.io",
    "nvmlDeviceGetName": "verl.gpu.info",
    "nvmlDeviceGetComputeRunningProcesses_v3": None,
    "nvmlDeviceGetMigMode": None,
}


@pytest.mark.parametrize("error", [3, 999, 15], ids=["not supported", "unknown", "lost"])
def test_a_call_that_fails_costs_its_own_figure_of_its_own_gpu(reader, error):
    everything = {name for name, *_ in reader.read("gpus 2\nprocess 1 1 1\n")}
    for call, lost in CALLS.items():
        found = reader.read(f"gpus 2\nprocess 1 1 1\nfail {call} {error} 0\n")
        assert {name for name, _, one, _ in found if one["hw.id"] == gpu(1)} == everything, call
        assert lost is None or lost not in {name for name, _, one, _ in found if one["hw.id"] == gpu(0)}, call


def test_a_passing_failure_passes_and_a_refusal_is_not_asked_again(reader):
    assert reader.values("hw.power", "gpus 1\nfail nvmlDeviceGetPowerUsage 999\n") == {}
    assert reader.values("hw.power", "gpus 1\n") == {gpu(0): 300}
    assert reader.values("hw.power", "gpus 1\nfail nvmlDeviceGetPowerUsage 3\n") == {}
    assert reader.values("hw.power", "gpus 1\n") == {}


def test_a_gpu_that_fell_off_the_bus_is_told_and_the_others_are_read(reader):
    reader.read("gpus 3\n")
    lost = "gpus 3\nfail nvmlDeviceGetHandleByIndex_v2 15 1\n"
    assert reader.values("hw.status", lost, hw_state="failed") == {gpu(0): 0, gpu(1): 1, gpu(2): 0}
    assert reader.values("hw.power").keys() == {gpu(0), gpu(2)}


def test_a_driver_that_goes_and_comes_back(reader):
    assert reader.values("hw.power", "gpus 1\n") == {gpu(0): 300}
    assert reader.read("gpus 1\nfail * 1\n") == "NVMLError_Uninitialized"
    assert reader.read("gpus 1\nfail * 9\n") == "NVMLError_DriverNotLoaded"
    assert reader.values("hw.power", "gpus 1\n") == {gpu(0): 300}


def test_two_processes_never_tell_of_the_same_gpu_and_one_takes_over(reader, library, tmp_path):
    both = tmp_path / "state"
    assert len(reader.values("hw.power", EIGHT)) == 8
    other = Reader(library, both)
    assert other.values("hw.power") == {}
    reader.process.kill()
    reader.process.wait()
    assert len(other.values("hw.power")) == 8
    other.process.kill()
    other.process.wait()


def test_without_a_driver_it_says_so(tmp_path):
    state = tmp_path / "state"
    state.write_text("")
    reader = Reader(Path("/nowhere"), state)
    assert reader.read() in ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded")
    reader.process.kill()
    reader.process.wait()
