"""The observed runs that the end-to-end tests look at; each is made once and serves many assertions."""

import contextlib
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from captured import Capture
from observed import read_log
from run import Run, Running

from e2e.backends import arrived, serving
from e2e.browser import launched
from e2e.pages import Pages
from e2e.stack import Tap
from stand_ins import compiled_nvml

GPUS = "gpus 2\nutilization 0 25\nutilization 1 75\npower 0 100000\npower 1 300000\n"
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Observed:
    """A finished run: its output, verl's own log, what arrived, and how long it took to end after its last log line.

    `folder`: where the run wrote; `generations` what verl's own dumps say. `pages`, `queue`: their own, if read.
    """

    code: int
    output: str
    log: list
    capture: Capture
    ending: float
    folder: Path
    pages: list = field(default_factory=list)
    queue: list = field(default_factory=list)

    def generations(self, of):
        """verl's dumps, `rollouts` or `validation`: (step, `uid_session_output`) to what it says of the trajectory."""
        found = {}
        for path in sorted((self.folder / of).glob("*.jsonl")):
            for line in map(json.loads, path.read_text().splitlines()):
                found[int(path.stem), line["uid"]] = line
        return found


def observe(
    folder,
    door,
    steps,
    environment=(),
    overrides=(),
    receive=True,
    module="verl.trainer.main_ppo",
    meanwhile=lambda running, backend: None,
    complete=True,
    address=None,
    recorded=False,
):
    """Run verl for real and read what came of it; `address`: of a Ray cluster that is up, else the run starts its own.

    `meanwhile` is called while it runs, to disturb it. `complete`: verl must have logged something. `recorded`: each
    request is kept as it came, too, in capture.otlp. `receive`: without, it sends nowhere unless told.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        backend = stack.enter_context(serving(folder)) if receive else None
        endpoint = backend.url if backend else None
        if recorded:
            endpoint = stack.enter_context(Tap(folder / "capture.otlp", endpoint)).endpoint
        sent = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        environment = {**(sent if receive else {}), **dict(environment)}
        run = Run(steps, door, module, address, environment, tuple(overrides), folder)
        with Running(run) as running:
            meanwhile(running, backend)
            code = running.process.wait(600)
            ended = time.time()
            # Ray's workers outlive a driver by seconds, without us too.
            deadline = time.monotonic() + 20
            while (left := running.processes()) and time.monotonic() < deadline:
                time.sleep(0.2)
            assert [alive(pid) for pid in left] == [], "something of the run is still alive"
        output = run.output.read_text(errors="replace")
        assert run.metrics.exists() or not complete, output[-3000:]
        log, last = (read_log(run.metrics), run.metrics.stat().st_mtime) if run.metrics.exists() else ([], ended)
    return Observed(code, output, log, arrived(folder) if receive else Capture(), ended - last, folder)


def alive(pid):
    """What a process is, for people."""
    folder = Path(f"/proc/{pid}")
    try:
        title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        state = [line for line in (folder / "status").read_text().splitlines() if line.startswith(("State", "PPid"))]
    except OSError:
        return f"{pid}, gone by now"
    return f"{pid}: {title[:200]} {state}"


def wait_for(condition, what, seconds=300):
    """Until `condition()` is true; fails with `what` was awaited."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} didn't come"
        time.sleep(0.2)
    return found


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """The demo as a user starts it, with settings of theirs that must not spoil it: (exit code, what it said, run)."""
    folder = tmp_path_factory.mktemp("demo")
    spoiling = {
        "OTEL_SDK_DISABLED": "true",
        "OTEL_TRACES_EXPORTER": "none",
        "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=same,host.name=wrong",
        "VERL_OTEL_ENABLED": "false",
        "http_proxy": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
    }
    result = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "cpu" / "demo.py"), "--keep", str(folder)],
        env={**os.environ, **spoiling},
        capture_output=True,
        text=True,
        timeout=900,
    )
    print(result.stdout, result.stderr)
    log, capture = read_log(folder / "metrics.jsonl"), arrived(folder)
    output = (folder / "output.txt").read_text(errors="replace")
    observed = Observed(result.returncode, output, log, capture, 0.0, folder)
    return result.returncode, result.stdout, observed


@pytest.fixture(scope="module")
def chromium():
    """The browser, no longer than a module needs it: while it is there, nothing else can run an event loop."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def by_plugin(tmp_path_factory):
    """One step, by verl's plugin."""
    return observe(tmp_path_factory.mktemp("plugin"), "plugin", 1)


@pytest.fixture(scope="session")
def by_program(tmp_path_factory):
    """One step, by `instrument()` in a launcher, with the engine's own page read beside, and GPUs of a stand-in.

    Its figures are given to verl's loggers, too.
    """
    folder = tmp_path_factory.mktemp("program")
    (folder / "gpus").write_text(GPUS)
    environment = {
        # More often than the page is read: on a fast machine the engine works for less than a second.
        "OTEL_METRIC_EXPORT_INTERVAL": "200",
        # And TransferQueue asks its units more often than a step takes.
        "TQ_METRICS_COLLECT_INTERVAL": "1",
        "VERL_OTEL_LOG_FIGURES": "true",
        "FAKE_NVML": str(folder / "gpus"),
        "LD_LIBRARY_PATH": str(compiled_nvml(folder)),
    }
    pages = Pages()
    run = observe(folder, "program", 1, environment, meanwhile=pages.follow, recorded=True)
    run.pages = pages.read
    return run


@pytest.fixture(scope="session")
def unheard(tmp_path_factory):
    """One step with nothing listening on the endpoint, and wrong settings."""
    wrong = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "VERL_OTEL_FOO": "",
        "OTEL_TRACES_SAMPLER_ARG": "7",
    }
    return observe(tmp_path_factory.mktemp("unheard"), "auto", 1, wrong, receive=False)
