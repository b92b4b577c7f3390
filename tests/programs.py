"""The real collector and the real Prometheus 3, built from Go's modules once and run on loopback."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
import yaml

ROOT = Path(__file__).resolve().parents[1]
STACK = ROOT / "src" / "verl_otel" / "stack"
BUILT = ROOT / ".work" / "go"
PROMETHEUS = "v0.316.0"
JAEGER = "v1.76.0"
BUILDER = "go.opentelemetry.io/collector/cmd/builder@v0.161.0"


def go():
    """The go command; skips where there is none."""
    if (found := shutil.which("go") or shutil.which("/usr/local/go/bin/go")) is None:
        pytest.skip("left out: there is no Go here")
    return found


def built(name, make):
    """Path of a program; `make(folder)` builds it there, unless that was done before."""
    program = BUILT / name / name
    if not program.exists():
        folder = program.parent
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(folder)
        assert program.exists()
    return program


def run(*command, folder):
    """Run to its end; its output is the reason it failed for."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def build_prometheus(folder):
    path = "github.com/prometheus/prometheus/cmd/prometheus"
    run(go(), "mod", "init", "stack", folder=folder)
    run(go(), "get", "-tool", f"{path}@{PROMETHEUS}", folder=folder)
    run(go(), "build", "-o", "prometheus", path, folder=folder)


def build_collector(folder):
    run(go(), "run", BUILDER, f"--config={STACK / 'collector' / 'builder.yaml'}", folder=folder)
    (folder / "otelcol-verl" / "otelcol-verl").rename(folder / "collector")


CLUSTER = """
exporters:
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/loadbalancingexporter v0.161.0
processors:
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/processor/k8sattributesprocessor v1.0.0
"""
"""What agent.yaml needs beside builder.yaml, as the contrib distribution has it."""
_AWS = "github.com/aws/aws-sdk-go-v2/service/servicediscovery"
CLUSTER_REPLACES = {
    _AWS: f"{_AWS} v1.40.2",
    "github.com/open-telemetry/opentelemetry-collector-contrib/pkg/semconvtest": "{stand_in}",
}
"""Versions that Go's proxy lacks. The second is for its own tests alone, and an empty stand-in takes its place."""


def build_cluster_collector(folder):
    stand_in = folder / "semconvtest"
    stand_in.mkdir()
    (stand_in / "go.mod").write_text(f"module {list(CLUSTER_REPLACES)[1]}\n\ngo 1.25\n")
    (stand_in / "stand_in.go").write_text("package semconvtest\n")
    manifest = yaml.safe_load((STACK / "collector" / "builder.yaml").read_text())
    for kind, modules in yaml.safe_load(CLUSTER).items():
        manifest[kind] += modules
    manifest["replaces"] = [f"{path} => {to.format(stand_in=stand_in)}" for path, to in CLUSTER_REPLACES.items()]
    (folder / "builder.yaml").write_text(yaml.safe_dump(manifest))
    run(go(), "run", BUILDER, f"--config={folder / 'builder.yaml'}", folder=folder)
    (folder / "otelcol-verl" / "otelcol-verl").rename(folder / "cluster-collector")


def build_jaeger(folder):
    path = "github.com/jaegertracing/jaeger/cmd/jaeger"
    run(go(), "mod", "init", "stack", folder=folder)
    run(go(), "get", "-tool", f"{path}@{JAEGER}", folder=folder)
    run(go(), "build", "-o", "jaeger", path, folder=folder)


def free_address():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def wait_until_ready(url, process, log):
    deadline = time.monotonic() + 30
    while True:
        with contextlib.suppress(requests.RequestException):
            if requests.get(url, timeout=2).status_code == 200:
                return
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)


@contextlib.contextmanager
def running(command, folder, ready, **environment):
    """A program from its start, once `ready` answers, to its end."""
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **environment}, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            wait_until_ready(ready, process, log)
            yield process
        finally:
            process.terminate()
            process.wait(20)


@dataclass(frozen=True)
class Program:
    """One at work: where it takes requests, and its process."""

    url: str
    pid: int = 0


class Prometheus(Program):
    """A running one; `query` asks it."""

    def get(self, what, **parameters):
        """The data of its answer."""
        found = requests.get(f"{self.url}/api/v1/{what}", params=parameters, timeout=30).json()
        assert found["status"] == "success", found
        return found["data"]

    def query(self, expression, **more):
        return self.get("query", query=expression, **more)["result"]

    def names(self):
        return set(self.get("label/__name__/values"))


@contextlib.contextmanager
def prometheus(folder):
    address = free_address()
    command = [
        str(built("prometheus", build_prometheus)),
        f"--config.file={STACK / 'prometheus' / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={address}",
        "--web.enable-otlp-receiver",
    ]
    with running(command, folder, f"http://{address}/-/ready") as process:
        yield Prometheus(f"http://{address}", process.pid)


@contextlib.contextmanager
def collector(folder, prometheus_url, tempo=None):
    """Its URL is for OTLP over HTTP; `tempo`: host:port of a trace store, else traces wait in its queue."""
    grpc, http, own, health, nobody = (free_address() for _ in range(5))
    command = [str(built("collector", build_collector)), f"--config={STACK / 'collector' / 'collector.yaml'}"]
    environment = {
        "OTLP_GRPC_ADDRESS": grpc,
        "OTLP_HTTP_ADDRESS": http,
        "OWN_ADDRESS": own,
        "HEALTH_ADDRESS": health,
        "TEMPO_ADDRESS": tempo or nobody,
        "LOGS_URL": f"http://{nobody}/v1/logs",
        "PROMETHEUS_URL": prometheus_url,
        "STORAGE_DIRECTORY": str(folder / "storage"),
    }
    with running(command, folder, f"http://{health}/", **environment) as process:
        yield Program(f"http://{http}", process.pid)
