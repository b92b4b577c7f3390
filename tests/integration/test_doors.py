"""The doors seen from other programs: unchanged where verl is not imported, also beside opentelemetry-distro."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

OTHER_PROGRAM = """
import sys, threading
from opentelemetry import trace
print(type(trace.get_tracer_provider()).__name__)
print(sorted(one.name for one in threading.enumerate() if "verl" in one.name))
print(sorted(name for name in sys.modules if name in ("ray", "torch", "verl", "vllm", "sglang")))
import random
from opentelemetry.sdk.trace import id_generator
print(id_generator.random is random)
"""

RAY_PROGRAM = """
import ray, sys
print(sorted(name for name in vars(ray.actor) if "verl_otel" in repr(vars(ray.actor)[name])))
print("verl_otel" in ray.init.__code__.co_filename, "verl_otel" in ray.actor._modify_class.__code__.co_filename)
"""


def run(python, program, launcher=(), **environment):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "VERL_OTEL_"))}
    result = subprocess.run(
        [*launcher, str(python), "-c", program],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result


def instrument(python):
    return (str(Path(python).parent / "opentelemetry-instrument"),)


def test_another_program_under_opentelemetry_instrument_is_unchanged():
    result = run(sys.executable, OTHER_PROGRAM, instrument(sys.executable))
    assert result.stdout.splitlines() == ["ProxyTracerProvider", "[]", "[]", "True"]
    assert result.stderr == ""


@pytest.mark.verl
def test_a_ray_program_without_verl_is_unchanged():
    result = run(sys.executable, RAY_PROGRAM, instrument(sys.executable))
    assert result.stdout.splitlines() == ["[]", "False False"]


def test_enabled_another_program_is_still_unchanged():
    result = run(sys.executable, OTHER_PROGRAM, VERL_OTEL_ENABLED="true")
    assert result.stdout.splitlines() == ["ProxyTracerProvider", "[]", "[]", "True"]
    assert result.stderr == ""


@pytest.fixture(scope="session")
def distro_python(tmp_path_factory):
    """A venv with this package and opentelemetry-distro, without verl."""
    folder = tmp_path_factory.mktemp("distro") / "venv"
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "opentelemetry-distro", str(ROOT)], check=True)
    return python


def test_beside_opentelemetry_distro_another_program_is_unchanged(distro_python, tmp_path):
    without = run(distro_python, OTHER_PROGRAM, OTEL_TRACES_EXPORTER="console")
    console = {f"OTEL_{signal}_EXPORTER": "console" for signal in ("TRACES", "METRICS", "LOGS")}
    beside = run(distro_python, OTHER_PROGRAM, instrument(distro_python), **console)
    assert without.stdout.splitlines()[0] == "ProxyTracerProvider"
    # The distro's own provider rules, and no second configurator or distro makes it complain.
    assert beside.stdout.splitlines() == ["TracerProvider", "[]", "[]", "True"]
    assert "already loaded" not in beside.stderr
    assert "verl" not in beside.stderr


def test_beside_an_applications_own_provider_nothing_is_exported_twice(distro_python):
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
theirs = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(theirs))
trace.set_tracer_provider(provider)
from verl_otel import runtime
with trace.get_tracer("user").start_as_current_span("user span"):
    with runtime.current().tracer.start_as_current_span("our span"):
        pass
assert trace.get_tracer_provider() is provider
print(*[span.name for span in theirs.get_finished_spans()], sep="|")
"""
    quiet = {"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_TRACES_EXPORTER": "console"}
    lines = run(distro_python, program, **quiet).stdout.splitlines()
    assert "user span" in lines
    ours = [line for line in lines if '"name": "our span"' in line]
    assert len(ours) == 1
    assert not [line for line in lines if '"name": "user span"' in line]
