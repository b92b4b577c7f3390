"""What benchmarks of a receiver share: a small real run to make load of, and the CPU time of a process."""

import os
from collections.abc import Mapping
from pathlib import Path

from benchmarks.real_run import run_one
from recorder import Recorder


def small_run(base: Path, more: Mapping[str, str] | None = None) -> Path:
    """Three steps of GRPO on this CPU, observed; returns its capture. `more`: of the run's environment."""
    with Recorder(base / "capture.otlp") as receiver:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
        run_one(base / "run", 3, "program", {**environment, **(more or {})}, lambda _: None)
    return base / "capture.otlp"


def spent(pid: int) -> float:
    """Seconds that a process has computed."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
