"""In every Python process of a run whose CPU time is divided: what our threads and wrappers take of it.

Python runs this at its start (the folder is on PYTHONPATH). Our threads are named for the kernel, so that
/proc/<pid>/task tells them from the others, and the CPU time of our functions in the user's threads is added up in a
file of 8 bytes a process, which can be read while the process lives and after it was killed.
"""

import functools
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

METERED = (
    ("verl_otel.telemetry.recording", "Recording.__init__"),
    ("verl_otel.telemetry.recording", "Recording.set"),
    ("verl_otel.telemetry.recording", "Recording.stop"),
    ("verl_otel.telemetry.recording", "Recording.fail"),
    ("verl_otel.telemetry.steps", "phase"),
    ("verl_otel.telemetry.steps", "logged"),
    ("verl_otel.telemetry.workers", "start"),
    ("verl_otel.telemetry.trajectories", "Trajectory.__init__"),
    ("verl_otel.telemetry.trajectories", "Trajectory.stop"),
    ("verl_otel.telemetry.model_calls", "ModelCall.__init__"),
    ("verl_otel.telemetry.model_calls", "ModelCall.stop"),
    ("verl_otel.telemetry.engines", "EngineRequest.__init__"),
    ("verl_otel.telemetry.engines", "EngineRequest.stop"),
    ("verl_otel.telemetry.rewards", "RewardCall.__init__"),
    ("verl_otel.telemetry.rewards", "RewardCall.stop"),
    ("verl_otel.telemetry.scalars", "log"),
    ("verl_otel.ray.context", "enter"),
    ("verl_otel.ray.context", "_carry"),
    ("verl_otel.ray.ending", "note_wait"),
)
"""Every function of ours that runs in a user's thread while a step does; each is found by its module when called."""

_lock = threading.Lock()
_inside = threading.local()
_file: mmap.mmap | None = None
_process = 0
_spent = 0


def _add(nanoseconds: int) -> None:
    global _file, _process, _spent
    with _lock:
        if _process != os.getpid():  # a forked child counts for itself
            _process, _spent = os.getpid(), 0
            path = Path(os.environ["BENCHMARK_METERS"]) / str(_process)
            path.write_bytes(bytes(8))
            with path.open("r+b") as file:
                _file = mmap.mmap(file.fileno(), 8)
        _spent += nanoseconds
        if _file is not None:
            struct.pack_into("q", _file, 0, _spent)


def metered(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, with its thread's CPU time added up; what it calls of ours isn't counted twice."""

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if getattr(_inside, "yes", False):
            return function(*args, **kwargs)
        _inside.yes = True
        start = time.thread_time_ns()
        try:
            return function(*args, **kwargs)
        finally:
            _inside.yes = False
            _add(time.thread_time_ns() - start)

    timed.__metered__ = True  # type: ignore[attr-defined]
    return timed


def meter() -> None:
    """Meter what is imported of ours by now."""
    for module, path in METERED:
        owner: Any = sys.modules.get(module)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part, None)
        if owner is not None and not hasattr(getattr(owner, name), "__metered__"):
            setattr(owner, name, metered(getattr(owner, name)))


def _wrap_start(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def start(self: threading.Thread) -> None:
        original(self)
        if self.name.startswith("verl-otel-"):
            # 15 letters are what the kernel keeps.
            Path(f"/proc/self/task/{self.native_id}/comm").write_text(self.name[:15])
            meter()

    return start


if "BENCHMARK_METERS" in os.environ:
    threading.Thread.start = _wrap_start(threading.Thread.start)  # type: ignore[method-assign]
