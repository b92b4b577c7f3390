"""The host, once for all its processes: OTel's own instrumentation of system metrics, and what containers add to that.

CPU times are of all CPUs together: one series for each of 192 would be thousands. The container's figures are in
control groups: https://docs.kernel.org/admin-guide/cgroup-v2.html, and cgroup-v1/memory.html.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from verl_otel import semconv
from verl_otel.delivery.points import counter, gauge, level
from verl_otel.guard import guard
from verl_otel.hardware.locks import Lock
from verl_otel.hardware.processes import booted
from verl_otel.importing import importing
from verl_otel.semconv import hardware as names
from verl_otel.telemetry import events

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import Metric

CONFIGURATION: Final[dict[str, list[str] | None]] = {
    "system.memory.usage": ["used", "free", "cached"],
    "system.memory.utilization": ["used", "free", "cached"],
    "system.swap.usage": ["used", "free"],
    "system.disk.io": ["read", "write"],
    "system.network.io": ["transmit", "receive"],
    "system.network.errors": ["transmit", "receive"],
    "system.network.dropped.packets": ["transmit", "receive"],
}
"""What the instrumentation is asked for, by its own words."""
_STATES: Final = ("user", "system", "idle", "iowait")
_CGROUP: Final = Path("/sys/fs/cgroup")
_NO_LIMIT: Final = 1 << 60
"""Bytes from which on a limit of the older control groups is none."""
_SHM: Final = "/dev/shm"  # noqa: S108 - it is looked at, not written to


class Host:
    """What this process reads of the host, if it is its to read."""

    def __init__(self) -> None:
        self._lock = Lock("host")
        self._instrumentor: Any = None
        self._kills: int | None = None
        self._since = time_ns()

    def begin(self, meters: "MeterProvider") -> None:
        """Have OTel's instrumentation observe by `meters`, if the lock can be had now and it is installed."""
        if self._instrumentor is not None or not self._lock.acquire():
            return
        try:
            with importing():
                from opentelemetry.instrumentation.system_metrics import SystemMetricsInstrumentor
        except ImportError:
            self._instrumentor = False  # `verl-otel doctor` says so
            return

        class HostInstrumentor(SystemMetricsInstrumentor):
            """One of its own: the class gives one object a process, which OTel's loader may have made."""

            _instance = None

        self._instrumentor = HostInstrumentor(config=CONFIGURATION)
        self._instrumentor.instrument(meter_provider=meters, skip_dep_check=True)

    def read(self, time: int) -> "Iterator[Metric]":
        """CPU, shared memory, and this container's limits; says when the kernel killed for memory."""
        if not self._lock.acquire():
            return
        yield counter(names.SYSTEM_CPU, _cpu_times(), booted(), time)
        with guard("shared memory"):
            found = os.statvfs(_SHM)
            size, free = found.f_blocks * found.f_frsize, found.f_bfree * found.f_frsize
            yield level(names.HOST_SHM_USAGE, [({}, size - free)], self._since, time)
            yield level(names.HOST_SHM_LIMIT, [({}, size)], self._since, time)
        if (used := _bytes("memory.current", "memory/memory.usage_in_bytes")) is not None:
            yield level(names.CONTAINER_MEMORY, [({}, used)], self._since, time)
        if (limit := _bytes("memory.max", "memory/memory.limit_in_bytes")) is not None:
            yield gauge(names.HOST_MEMORY_LIMIT, [({}, limit)], time)
        if (cpus := _cpus()) is not None:
            yield gauge(names.HOST_CPU_LIMIT, [({}, cpus)], time)
        if (kills := _kills()) is not None:
            self._tell(kills)
            yield counter(names.HOST_OOM_KILLS, [({}, kills)], booted(), time)

    def close(self) -> None:
        """Leave the host to others."""
        if self._instrumentor:
            self._instrumentor.uninstrument()
        self._instrumentor = None
        self._lock.release()

    def _tell(self, kills: int) -> None:
        before, self._kills = self._kills, kills
        if before is not None and kills > before:
            events.emit(semconv.EVENT_OOM_KILL, {names.OOM_KILLS: kills - before, semconv.OOM_KILLER: "kernel"})


def _cpu_times() -> list[tuple[dict[str, Any], float]]:
    first = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    ticks = os.sysconf("SC_CLK_TCK")
    user, nice, system, idle, iowait = (int(one) / ticks for one in first[:5])
    return [
        ({names.CPU_MODE: mode}, value)
        for mode, value in zip(_STATES, (user + nice, system, idle, iowait), strict=True)
    ]


def _read(*paths: str) -> str | None:
    """The first of the control group's files that there is."""
    for path in paths:
        with contextlib.suppress(OSError):
            return (_CGROUP / path).read_text()
    return None


def _bytes(*paths: str) -> int | None:
    """What a file with one number says; None where there is none, or no limit."""
    text = (_read(*paths) or "").strip()
    return int(text) if text.isdigit() and int(text) < _NO_LIMIT else None


def _cpus() -> float | None:
    found = _read("cpu.max") or f"{_read('cpu/cpu.cfs_quota_us') or ''} {_read('cpu/cpu.cfs_period_us') or ''}"
    quota, _, period = found.strip().partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.strip().isdigit() else None


def _kills() -> int | None:
    lines = (_read("memory.events", "memory/memory.oom_control") or "").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)
