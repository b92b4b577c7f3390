"""A host with several processes and runs: who reads GPUs, host and pages, what they say, and who follows whom."""

import contextlib
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recorded import recorded
from recorder import Recorder
from stand_ins import compiled_nvml
from verl_otel import semconv

PROGRAM = """
import importlib, os, sys, time
import verl_otel
from verl_otel import runtime
from verl_otel.telemetry import whoami
verl_otel.instrument()
importlib.import_module(os.environ.get("IMPORTED", "ray"))
runtime.current()
whoami.is_(sys.argv[1], rank=int(sys.argv[2]))
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compiled_nvml(tmp_path_factory.mktemp("nvml"))


class Host:
    """Processes of runs on this host, with eight GPUs of a stand-in, and what arrives of them."""

    def __init__(self, folder, library, receiver):
        self.folder, self.receiver, self.processes = folder, receiver, []
        (folder / "gpus").write_text("gpus 8\n")
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "VERL_"))},
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML": str(folder / "gpus"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRIC_EXPORT_INTERVAL": "300",
        }

    def start(self, run, role="actor", rank=0, launcher=(), **environment):
        program = self.folder / "program.py"
        program.write_text(PROGRAM)
        process = subprocess.Popen(
            [*launcher, sys.executable, str(program), role, str(rank)],
            env={**self.environment, "VERL_OTEL_RUN_ID": run, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout.readline().strip() == "up"
        return process

    def points(self, metric):
        return [one for one in recorded(self.receiver.path).points if one.metric == metric]

    def wait_for(self, condition, what, seconds=15):
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < deadline, f"{what} didn't come"
            time.sleep(0.1)
        return found

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def host(tmp_path, library):
    with Recorder(tmp_path / "capture.otlp") as receiver:
        receiver.path = tmp_path / "capture.otlp"
        made = Host(tmp_path, library, receiver)
        yield made
        made.stop()


def by_process(points):
    """Times of a series' points by the process id that sent them."""
    found = {}
    for one in points:
        found.setdefault(one.resource["process.pid"], []).append(one.time)
    return found


def test_each_gpu_and_the_host_are_told_once_whoever_runs_here(host):
    for run, rank in (("a", 0), ("a", 1), ("b", 0), ("b", 1)):
        host.start(run, rank=rank)
    host.wait_for(lambda: len(host.points("hw.power")) >= 80, "GPUs")
    host.wait_for(lambda: host.points("system.memory.usage"), "the host")
    power = host.points("hw.power")
    assert {one.attributes["hw.id"] for one in power} == {f"GPU-stand-in-{number}" for number in range(8)}
    for gpu in range(8):
        mine = by_process(one for one in power if one.attributes["hw.id"] == f"GPU-stand-in-{gpu}")
        assert len(mine) == 1
    for metric in ("system.memory.usage", "system.cpu.time", "verl.host.shm.usage"):
        assert len(by_process(host.points(metric))) == 1
    assert len(by_process(host.points("process.memory.usage"))) == 4
    assert len({one.resource[semconv.RUN_ID] for one in host.points("process.cpu.time")}) == 2


def test_the_one_that_dies_is_followed_within_seconds_and_never_two_at_once(host):
    for rank in range(3):
        host.start("a", rank=rank)
    before = by_process(host.wait_for(lambda: host.points("hw.power"), "GPUs"))
    (first,) = before
    os.kill(first, signal.SIGKILL)
    died = time.time_ns()
    host.wait_for(lambda: len(by_process(host.points("hw.power"))) == 2, "a follower")
    times = by_process(host.points("hw.power"))
    (follower,) = times.keys() - {first}
    assert min(times[follower]) > max(times[first])
    assert (min(times[follower]) - died) / 1e9 < 5
    host.wait_for(lambda: follower in by_process(host.points("system.memory.usage")), "the host by the follower")


def test_containers_of_one_host_do_not_both_tell_of_a_gpu(host):
    """Mounts of its own make a process a node of its own; the GPUs and the host's network are the same."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("left out: no mount namespace can be made here")
    host.start("a", rank=0)
    host.start("a", rank=1, launcher=["unshare", "--mount"])
    host.wait_for(lambda: len(by_process(host.points("process.memory.usage"))) == 2, "both")
    host.wait_for(lambda: len(host.points("hw.power")) >= 80, "GPUs")
    for gpu in range(8):
        mine = by_process(one for one in host.points("hw.power") if one.attributes["hw.id"] == f"GPU-stand-in-{gpu}")
        assert len(mine) == 1
    assert len(by_process(host.points("system.memory.usage"))) == 1


def test_a_processs_memory_on_the_gpu_has_the_role_that_it_says(host):
    host.start("a", rank=0)
    worker = host.start("a", role="rollout", rank=3)
    (host.folder / "gpus").write_text(f"gpus 1\nprocess 0 {worker.pid} 12345\n")
    found = host.wait_for(
        lambda: [one for one in host.points("verl.gpu.process.memory.usage") if semconv.RANK in one.attributes],
        "the process",
    )
    assert found[-1].value == 12345
    assert (found[-1].attributes[semconv.ROLE], found[-1].attributes[semconv.RANK]) == ("rollout", 3)

    def told():
        points = (one.attributes for one in host.points("process.memory.usage"))
        return {(one.get(semconv.ROLE), one.get(semconv.RANK)) for one in points}

    host.wait_for(lambda: told() >= {("actor", 0), ("rollout", 3)}, "both processes")


def test_a_driver_that_goes_in_mid_run_is_a_miss_and_comes_back(host):
    host.start("a")
    host.wait_for(lambda: host.points("hw.power"), "GPUs")
    (host.folder / "gpus").write_text("gpus 8\nfail * 1\n")
    missed = host.wait_for(lambda: host.points(semconv.TELEMETRY_MISSED.name), "a miss")
    assert missed[-1].attributes[semconv.SOURCE] == "verl_otel.gpus"
    gone = time.time_ns()
    (host.folder / "gpus").write_text("gpus 8\n")
    host.wait_for(lambda: [one for one in host.points("hw.power") if one.time > gone], "GPUs again")


def test_a_machine_without_gpus_misses_nothing(host):
    host.start("a", FAKE_NVML="/nowhere", LD_LIBRARY_PATH="")
    host.wait_for(lambda: len(host.points("process.memory.usage")) > 5, "the process")
    assert host.points("hw.power") == host.points(semconv.TELEMETRY_MISSED.name) == []


def test_where_otels_loader_starts_host_metrics_too_they_come_once(host):
    launcher = [str(Path(sys.executable).parent / "opentelemetry-instrument")]
    host.start("a", launcher=launcher, IMPORTED="verl", VERL_PLATFORM="cpu")
    host.wait_for(lambda: len(host.points("system.memory.usage")) > 9, "the host")
    found = [one for one in host.points("system.memory.usage") if one.attributes["state"] == "used"]
    assert len({one.time for one in found}) == len(found)
    assert {one.metric for one in recorded(host.receiver.path).points if one.metric.startswith("system.")} == {
        "system.cpu.time",
        "system.memory.usage",
        "system.memory.utilization",
        "system.swap.usage",
        "system.disk.io",
        "system.network.io",
        "system.network.errors",
        "system.network.dropped_packets",
    }


PAGE = (
    "# HELP node_load1 1m load average.\n# TYPE node_load1 gauge\nnode_load1 0.5\n# TYPE a_total counter\na_total 3\n"
)


@contextlib.contextmanager
def serving(answer):
    """A page on this host; `answer(handler)` gives its text."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = answer(self).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    server.shutdown()


def test_a_page_of_this_host_is_read_by_one_process(host):
    with serving(lambda _: PAGE) as url:
        for rank in range(2):
            host.start("a", rank=rank, VERL_OTEL_SCRAPE=url, http_proxy="http://127.0.0.1:9")
        host.wait_for(lambda: len(host.points("node_load1")) > 3, "the page")
    assert len(by_process(host.points("node_load1"))) == 1
    (last,) = {(one.value, one.unit, one.attributes["server.address"]) for one in host.points("node_load1")}
    assert last == (0.5, "", "127.0.0.1")
    assert host.points("a_total")[-1].kind == "sum"


def test_bad_pages_cost_themselves_alone(host):
    hanging = threading.Event()
    pages = {
        "garbage": lambda _: "<html>no metrics{</html>",
        "hangs": lambda _: hanging.wait(20) or "",
        "endless": lambda _: "x" * (17 << 20),
    }
    with contextlib.ExitStack() as stack:
        urls = {name: stack.enter_context(serving(page)) for name, page in pages.items()}
        good = stack.enter_context(serving(lambda _: PAGE))
        host.start("a", VERL_OTEL_SCRAPE=",".join((*urls.values(), "http://127.0.0.1:9/metrics", "ray", good)))
        host.wait_for(lambda: len(host.points("node_load1")) > 2, "the good page")

        def missed():
            return {one.attributes[semconv.SOURCE] for one in host.points(semconv.TELEMETRY_MISSED.name)}

        bad = {f"scrape {url}" for url in (*urls.values(), "http://127.0.0.1:9/metrics", "ray")}
        host.wait_for(lambda: missed() == bad, f"misses of {bad}, not {missed()}", seconds=30)
        assert host.points("hw.power")
        hanging.set()
