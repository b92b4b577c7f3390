"""This run's eyes on this node: one process of the run, replaced by another within a second when it dies.

It reads what no other process on the host reads: each GPU, the host and each endpoint have a lock of their own, so
that two runs on one host, or two containers that see the same GPU, don't both tell of it. The others of the run send it
what they are and what they did.
"""

import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from verl_otel import runtime, semconv
from verl_otel.guard import failures, guard, say
from verl_otel.hardware import locks
from verl_otel.hardware.locks import Lock
from verl_otel.hardware.reports import Collector, Reporter
from verl_otel.importing import importing
from verl_otel.ray import here
from verl_otel.telemetry import figures, neighbours, recording, steps, whoami

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

    from verl_otel.bridges.endpoints import Endpoint
    from verl_otel.hardware.gpus import Gpus
    from verl_otel.hardware.host import Host
    from verl_otel.sdk import Runtime

EVERY: Final = 1.0
"""Seconds between two looks: at whether the process that had the lock is gone, and at what was sent."""
AGAIN: Final = 10.0
"""Seconds after which a process says again who it is, since who heard it may be gone."""
MOST_PROCESSES: Final = 1000
MOST_UNSENT: Final = 200

_WHO: Final = "who"
_NO_LABELS: Final = ("kind", "pid", "devices")
_MOUNTS: Final = Path("/proc/self/ns/mnt")
_DRIVER: Final = Path("/proc/driver/nvidia")
_NO_DRIVER: Final = ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded", "NVMLError_NoPermission")


class Node:
    """What this process does for its node, once it has the run's lock."""

    def __init__(self, started: "Runtime") -> None:
        self._runtime = started
        self._lock = Lock(inbox(started.settings.run_id))
        self._gpus: Gpus | None = None
        self._host: Host | None = None
        self._endpoints: list[Endpoint] = []
        self._told = False
        self._reporter: Reporter | None = None
        self._collector: Collector | None = None
        self._devices: set[str] = set()
        self._may_use_all = False
        self._roles: dict[int, dict[str, Any]] = {}
        self._said = -AGAIN
        self._closed = False

    def look(self) -> None:
        """Take the lock if it is free; say who this is; resend what couldn't be sent."""
        if self._closed:
            return
        if self._gpus is None and self._lock.acquire():
            self._begin()
        if monotonic() - self._said >= AGAIN and (who := whoami.labels()):
            neighbours.tell(_WHO, {"pid": os.getpid(), "devices": _devices(), **who})
            self._said = monotonic()
        resend()
        if self._collector is None and steps.has_trainer() and (run_id := self._runtime.settings.run_id):
            self._collector = Collector(run_id, figures.take)
            self._collector.start()
        if self._host is not None:
            with guard("host metrics"):
                self._host.begin(self._runtime.meters)

    def _begin(self) -> None:
        with importing():
            from verl_otel.bridges.endpoints import Endpoint
            from verl_otel.delivery.sources import Source
            from verl_otel.hardware.gpus import Gpus
            from verl_otel.hardware.host import Host
            from verl_otel.ray.object_store import ObjectStore

        self._gpus, self._host = Gpus(self.roles), Host()
        if run_id := self._runtime.settings.run_id:
            self._reporter = Reporter(run_id, self.used)
            self._reporter.start()
        threading.Thread(target=self._listen, name="verl-otel-inbox", daemon=True).start()
        self._endpoints = [Endpoint(url) for url in self._runtime.settings.scrape]
        if (reader := self._runtime.pipeline.reader) is not None:
            reader.add_source(Source("verl_otel.gpus", self._read_gpus))
            reader.add_source(Source("verl_otel.host", self._host.read))
            reader.add_source(Source("verl_otel.object_store", ObjectStore().read))
            for one in self._endpoints:
                reader.add_source(Source(f"scrape {one.url}", one.read))

    def _read_gpus(self, time: int) -> "Iterator[Metric]":
        assert self._gpus is not None
        try:
            with importing():
                import pynvml
        except ImportError:
            if not self._told and _DRIVER.exists():
                say("no GPU metrics: pip install 'verl-otel[hardware]'")
            self._told = True
            return
        try:
            yield from self._gpus.read(time)
        except pynvml.NVMLError as error:
            # A machine without a driver has no GPUs, which is no miss; one whose driver went away is.
            if self._gpus.seen or type(error).__name__ not in _NO_DRIVER:
                raise

    def roles(self) -> dict[int, dict[str, Any]]:
        """Role and rank of the run's processes on this node, by process id."""
        return dict(self._roles)

    def used(self) -> set[str] | None:
        """GPUs that the run's processes here were given, by index or UUID; None for all."""
        return set(self._devices) if self._devices or not self._may_use_all else None

    def _listen(self) -> None:
        while not self._closed:
            if (message := self._lock.receive(EVERY)) is not None:
                with guard("hearing from a process"):
                    self._hear(message)

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("kind") != _WHO:
            if self._reporter is not None:
                self._reporter.hear(message)
        elif len(self._roles) < MOST_PROCESSES:
            devices = message["devices"]
            self._may_use_all = self._may_use_all or devices is None
            self._devices.update(one.strip() for one in (devices or "").split(",") if one.strip())
            self._roles[int(message["pid"])] = {key: value for key, value in message.items() if key not in _NO_LABELS}

    def close(self) -> None:
        """Leave all to others."""
        self._closed = True
        self._lock.release()
        for one in (self._gpus, self._host, *self._endpoints, self._collector, self._reporter):
            if one is not None:
                with guard("leaving a node"):
                    one.close()


def _devices() -> str | None:
    """GPUs that this process was given; None if it may use all, as outside of Ray."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "" if here.is_connected() else None)


def inbox(run_id: str | None) -> str:
    """Name of the lock of a run on this node: containers with mounts of their own are nodes of their own."""
    return f"run/{run_id}/{_MOUNTS.stat().st_ino}"


_unsent: "deque[tuple[str, dict[str, Any]]]" = deque(maxlen=MOST_UNSENT)
"""What an inbox couldn't take at once; the oldest goes when there is too much."""


def send(kind: str, message: Mapping[str, Any]) -> None:
    """To the process that looks after this node, if there is one."""
    if _enabled and (started := runtime.started()) is not None:
        to, whole = inbox(started.settings.run_id), {"kind": kind, **message}
        if not locks.send(to, whole):
            if len(_unsent) == MOST_UNSENT:
                failures.add("telling the node", OverflowError(kind))
            _unsent.append((to, whole))


def resend() -> None:
    """What couldn't be sent; nobody may be there to take it."""
    for _ in range(len(_unsent)):
        to, whole = _unsent.popleft()
        if not locks.send(to, whole):
            _unsent.appendleft((to, whole))
            return


def _call_ended(attributes: Mapping[str, Any], seconds: float) -> None:
    """A worker's method returned: the trainer wants to know which rank was slowest."""
    if semconv.RANK in attributes and semconv.PHASE in attributes:
        told = {name: attributes[of] for name, of in _TOLD.items()}
        neighbours.tell(figures.CALL, {**told, "seconds": seconds})


_TOLD: Final = {"step": semconv.STEP, "phase": semconv.PHASE, "role": semconv.ROLE, "rank": semconv.RANK}
recording.on_end(_call_ended)
neighbours.listen(send)

_enabled = False
_known = False


def enable() -> None:
    """From now on this process is one of those that look after their node."""
    global _enabled, _known
    _enabled = True
    if not _known:
        _known = True
        runtime.on_start(_begin)


def disable() -> None:
    """No longer."""
    global _enabled
    _enabled = False


def _begin(started: "Runtime") -> None:
    if _enabled and started.pipeline.reader is not None:
        from verl_otel.hardware import processes

        node = Node(started)
        started.pipeline.reader.add_producer(processes.produced)
        started.pipeline.watch(node.look, every=EVERY)
        started.on_stop(node.close)
