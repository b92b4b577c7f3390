"""What the nodes of a run tell its trainer: a report each every two seconds, on the board that Ray keeps for a cluster.

Ray's key-value store is read and written without an actor call, so that a busy actor keeps nobody waiting. Each report
holds all of the last ten seconds: a few that are missed cost nothing. Nothing here is needed for an export.
"""

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Collection
from time import time_ns
from typing import Any, Final

from verl_otel.delivery.sender import suppress_instrumentation
from verl_otel.guard import failures
from verl_otel.hardware.nvml import Nvml
from verl_otel.importing import importing
from verl_otel.ray import here

EVERY: Final = 1.0
"""Seconds between samples; a report is posted with every second one."""
KEPT: Final = 10 * 10**9
"""ns that samples and messages stay in a report."""
PAUSE: Final = 60
"""Turns until the GPUs are tried again after a failure."""
MOST: Final = 5000
"""Messages of one report."""
SLACK: Final = 5 * 10**9
"""ns by which clocks of nodes may differ, and a report may be older than the trainer that reads it."""
_NAMESPACE: Final = b"verl-otel"

Report = dict[str, Any]


class _Repeating(threading.Thread):
    """Does something every second, until it is closed; what it raises is counted, unless Ray is going down."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"verl-otel-{name}", daemon=True)
        self._closed = threading.Event()

    def run(self) -> None:
        suppress_instrumentation()
        while not self._closed.wait(EVERY):
            self._try(self.turn)
        self._try(self.leave)

    def _try(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - Ray raises what it likes while it goes down
            if here.is_connected():
                failures.add(self.name, error)

    def turn(self) -> None:
        """What is done each time."""
        raise NotImplementedError

    def leave(self) -> None:
        """What is done at the end."""

    def close(self) -> None:
        """Do it no more. Waits for nothing: what Ray is asked may take long."""
        self._closed.set()


class Reporter(_Repeating):
    """A node's: samples the GPUs that the run uses, and posts that with what the run's processes sent."""

    def __init__(self, run_id: str, used: Callable[[], Collection[str] | None]) -> None:
        """`used`: GPUs of the run on this node, by index or UUID; None for all."""
        super().__init__("report")
        self._run_id, self._used = run_id, used
        self._nvml = Nvml()
        self._samples: deque[tuple[int, dict[str, Any]]] = deque()
        self._messages: deque[tuple[int, dict[str, Any]]] = deque(maxlen=MOST)
        self._turns = self._again = 0
        self._key: bytes | None = None

    def hear(self, message: dict[str, Any]) -> None:
        """Pass on what a process of the run sent."""
        self._messages.append((time_ns(), message))

    def turn(self) -> None:
        self._turns += 1
        if self._turns >= self._again:
            self._sample()
        if self._turns % 2 == 0:
            self._post()

    def _sample(self) -> None:
        try:
            if sampled := self._nvml.sample(self._used()):
                self._samples.append((time_ns(), sampled))
        except Exception:  # noqa: BLE001 - without a driver, or its binding, there is nothing to sample
            self._again = self._turns + PAUSE

    def _post(self) -> None:
        now = time_ns()
        for kept in (self._samples, self._messages):
            while kept and now - kept[0][0] > KEPT:
                kept.popleft()
        if (store := _store()) is None or not (self._samples or self._messages):
            return
        if self._key is None:
            self._key = f"{self._run_id}/{here.node()['NodeID']}".encode()
        report: Report = {"gpus": list(self._samples), "messages": list(self._messages), "host": os.uname().nodename}
        store._internal_kv_put(self._key, json.dumps(report).encode(), namespace=_NAMESPACE)  # noqa: SLF001

    def leave(self) -> None:
        self._nvml.close()
        if self._key is not None and (store := _store()) is not None:
            store._internal_kv_del(self._key, namespace=_NAMESPACE)  # noqa: SLF001


class Collector(_Repeating):
    """The trainer's: gives each new sample and message of every node, once."""

    def __init__(self, run_id: str, take: Callable[[Report], None]) -> None:
        """`take`: is given reports that hold only what is new."""
        super().__init__("collect")
        self._prefix = f"{run_id}/".encode()
        self._take = take
        self._turns = 0
        self._since = time_ns() - SLACK
        self._seen: dict[bytes, dict[str, int]] = {}

    def turn(self) -> None:
        self._turns += 1
        if self._turns % 2 or (store := _store()) is None:
            return
        for key in store._internal_kv_list(self._prefix, namespace=_NAMESPACE):  # noqa: SLF001
            if (text := store._internal_kv_get(key, namespace=_NAMESPACE)) is not None:  # noqa: SLF001
                self._take(self._only_new(key, json.loads(text)))

    def _only_new(self, key: bytes, report: Report) -> Report:
        # A report may be left of an attempt before, which nobody could take away.
        seen = self._seen.setdefault(key, dict.fromkeys(("gpus", "messages"), self._since))
        for kind, last in seen.items():
            report[kind] = [one for one in report[kind] if one[0] > last]
            if report[kind]:
                seen[kind] = report[kind][-1][0]
        return report


def _store() -> Any:
    """Ray's key-value store, once this process is part of a cluster."""
    if not here.is_connected():
        return None
    with importing():
        from ray.experimental import internal_kv

    ready = internal_kv._internal_kv_initialized()  # type: ignore[no-untyped-call] # noqa: SLF001
    return internal_kv if ready else None
