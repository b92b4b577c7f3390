"""What this process takes of its node: memory, CPU time and threads, by role and rank."""

import os
import resource
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from verl_otel.semconv import hardware as names
from verl_otel.telemetry import whoami

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

_STAT: Final = Path("/proc/self/stat")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_AFTER_NAME: Final = 2
"""Fields of `stat` before those that follow the name, which may hold blanks (man 5 proc_pid_stat)."""


def produced(time: int) -> "Iterable[Metric]":
    """As of now."""
    from verl_otel.delivery.points import counter, level

    fields = _STAT.read_text().rpartition(")")[2].split()
    user, system, threads, began, pages = (int(fields[number - 1 - _AFTER_NAME]) for number in (14, 15, 20, 22, 24))
    who = whoami.labels()
    start = min(time, booted() + began * 10**9 // _TICKS)
    yield counter(
        names.PROCESS_CPU,
        [({**who, names.CPU_MODE: mode}, ticks / _TICKS) for mode, ticks in (("user", user), ("system", system))],
        start,
        time,
    )
    yield level(names.PROCESS_MEMORY, [(who, pages * resource.getpagesize())], start, time)
    yield level(names.PROCESS_THREADS, [(who, threads)], start, time)


def booted() -> int:
    """When the host was, in ns since the epoch."""
    (line,) = (one for one in Path("/proc/stat").read_text().splitlines() if one.startswith("btime "))
    return int(line.split()[1]) * 10**9
