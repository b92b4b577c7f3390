"""A Ray cluster of the tests' own that is up before the driver: loopback, short paths, ended by its own handle."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

RAY = str(Path(sys.executable).parent / "ray")
QUIET = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
}


def clean_environment(**more):
    """The environment without anything of ours or of another cluster's."""
    ours = ("OTEL_", "VERL_OTEL_", "RAY_ADDRESS", "RAY_RUNTIME_ENV_HOOK")
    return {**{key: value for key, value in os.environ.items() if not key.startswith(ours)}, **QUIET, **more}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


# `ray start` refuses a second node on loopback; Ray's own test cluster doesn't.
SEVERAL = """
import os, sys, time
from ray.cluster_utils import Cluster
os.makedirs("/tmp/ray", exist_ok=True)  # where Ray notes the cluster's address, whatever its own folder is
folder, nodes, cpus = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cluster = Cluster()
for number in range(nodes):
    first = {"temp_dir": folder} if number == 0 else {}
    cluster.add_node(num_cpus=cpus, object_store_memory=100_000_000, node_ip_address="127.0.0.1",
                     include_dashboard=False, **first)
print("UP", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


class Head:
    """A cluster as a child: `nodes` raylets, `dashboard` for jobs, `client` for ray:// addresses."""

    def __init__(self, nodes=1, dashboard=False, client=False, cpus=3, gpus=0, environment=None):
        self.folder = Path(tempfile.mkdtemp(prefix="vo-", dir="/tmp"))
        self.environment = clean_environment(**(environment or {}))
        self.port, self.dashboard, self.client = free_port(), free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        own = ["--head", f"--port={self.port}", f"--temp-dir={self.folder}/r", f"--num-gpus={gpus}"]
        own += [f"--ray-client-server-port={self.client}"] if client else []
        own += ["--include-dashboard=true", "--dashboard-host=127.0.0.1", f"--dashboard-port={self.dashboard}"]
        if dashboard:
            ports = ("--dashboard-agent-listen-port", "--dashboard-agent-grpc-port", "--metrics-export-port")
            own += [f"{name}={free_port()}" for name in ports]
        else:
            own[own.index("--include-dashboard=true")] = "--include-dashboard=false"
        self._several = nodes > 1
        if self._several:
            arguments = [str(one) for one in (f"{self.folder}/r", nodes, cpus)]
            self._start([sys.executable, "-c", SEVERAL, *arguments])
            until(lambda: "UP" in (self.folder / "start.txt").read_text(), "the cluster")
            self.address = (self.folder / "start.txt").read_text().partition("UP ")[2].split()[0]
            return
        common = ["--block", f"--num-cpus={cpus}", "--node-ip-address=127.0.0.1", "--disable-usage-stats"]
        self._start([RAY, "start", *own, *common, "--object-store-memory=100000000"])
        self._wait(self.port)
        if client:
            self._wait(self.client)
        if dashboard:
            self._wait_for_jobs()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._several:
            self._process.stdin.close()
        else:
            self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(40)
        self._process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def written(self):
        """Everything that Ray wrote about this cluster: its logs and its session's files."""
        return "\n".join(
            path.read_text(errors="replace")
            for path in self.folder.rglob("*")
            if path.is_file() and not path.is_symlink()
        )

    def jobs(self):
        """The job records, as the dashboard shows them."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.dashboard}/api/jobs/", timeout=10) as answer:
            return answer.read().decode()

    def _start(self, command):
        with (self.folder / "start.txt").open("wb") as log:
            self._process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.PIPE, stdout=log, stderr=log
            )

    def _wait(self, port):
        until(lambda: _listens(port), f"port {port}")

    def _wait_for_jobs(self):
        def answers():
            try:
                return bool(self.jobs())
            except (OSError, urllib.error.URLError):
                return False

        until(answers, "the dashboard")


def until(condition, what, seconds=90):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} didn't come"
        time.sleep(0.2)


def _listens(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
