"""Test tools: record in this process, deliver by the environment as a user sets it, and wait for what must come true.

A span's name is its number, so that a list of names shows what was lost and what came twice.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from otlp_server import GrpcSink, HttpSink
from verl_otel import runtime
from verl_otel.delivery.core import Signal
from verl_otel.telemetry import scalars

HTTP, GRPC = "http/protobuf", "grpc"
SINKS = {HTTP: HttpSink, GRPC: GrpcSink}
over_both = pytest.mark.parametrize("protocol", [HTTP, GRPC])


def environment(endpoint, protocol, signals=tuple(Signal), **more):
    """Variables that deliver these signals to the endpoint."""
    others = {f"OTEL_{signal.name}_EXPORTER": "none" for signal in set(Signal) - set(signals)}
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, **others, **more}


def send_to(monkeypatch, endpoint, protocol, signals=(Signal.TRACES,), **more):
    """Have this process deliver so."""
    for name, value in environment(endpoint, protocol, signals, **more).items():
        monkeypatch.setenv(name, value)


def make_spans(first, last, **attributes):
    """End the spans numbered from `first` to before `last`; returns their names."""
    names = [str(number) for number in range(first, last)]
    for name in names:
        runtime.current().tracer.start_span(name, attributes=attributes).end()
    return names


def log_step(step, **values):
    """A snapshot of some scalars."""
    scalars.log(values or {"loss": 0.5, "reward": 1.0}, step, lambda key: scalars.ScalarName(f"verl.{key}"))


def statistics():
    return runtime.current().pipeline.statistics()


def eventually(condition, seconds=40):
    """Whether the condition came true in time; waits without a flush, which would end pauses."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def unused_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(program, variables, arguments=(), launcher=()):
    """A process of its own that runs the program, a text or a file, with no variables of OTel but these."""
    code = [str(program)] if isinstance(program, Path) else ["-c", program]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "VERL_OTEL_"))}
    if "PYTHONPATH" in kept and "PYTHONPATH" in variables:
        variables = {**variables, "PYTHONPATH": f"{variables['PYTHONPATH']}:{kept['PYTHONPATH']}"}
    return subprocess.Popen(
        [*launcher, sys.executable, *code, *map(str, arguments)],
        env={**kept, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(program, variables, arguments=(), launcher=(), timeout=90):
    """Run it to its end: what it printed, its complaints, its return code, and how long it took."""
    began = time.monotonic()
    process = start(program, variables, arguments, launcher)
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return out, err, process.returncode, time.monotonic() - began


TRACKING = """
class Tracking:
    def __init__(self, project_name, experiment_name, default_backend="console", config=None):
        self.logger = {}

    def log(self, data, step, backend=None):
        pass
"""


def small_verl(folder):
    """A package named verl with what logs a step and nothing else, since importing the real one takes seconds."""
    utils = folder / "verl" / "utils"
    utils.mkdir(parents=True)
    for one in (utils.parent, utils):
        (one / "__init__.py").touch()
    (utils / "tracking.py").write_text(TRACKING)
    return folder
