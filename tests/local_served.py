"""A store for tests of the HTTP server: one run, in memory, without a writer."""

import contextlib
import math
import threading

from local_rows import Rows, ms
from verl_otel import semconv
from verl_otel.local.errors import LocalError
from verl_otel.local.store.database import UnknownRunError

URL = "http://127.0.0.1:4318"


class Store:
    """Of one run, in memory; notes what is asked of it."""

    def __init__(self):
        self.rows = Rows()
        self.runs = self
        self.told = []
        self.removed = []
        self.accepted = []
        self.reads = []

    def list(self):
        return [self.get("a/run")]

    def get(self, run):
        if run != "a/run":
            raise UnknownRunError(f"there is no run {run!r}")
        return {"id": "a/run", "status": "finished", "updated": ms(100), "rev": 7}

    def accept(self, signal, body):
        self.accepted.append((signal, body))

    @contextlib.contextmanager
    def reading(self, run):
        self.get(run)
        self.reads.append(threading.current_thread().name)
        with self.rows.cursor() as cursor:
            yield cursor

    def subscribe(self, changed):
        self.told.append(changed)
        return lambda: self.told.remove(changed)

    def remove(self, run):
        self.get(run)
        if self.removed:
            raise LocalError("run a/run is running: it can be removed once it has ended")
        self.removed.append(run)

    def copy(self, run, path):
        self.get(run)
        path.write_bytes(b"a database")


def served():
    """A store with a step, a trajectory and a scalar."""
    made = Store()
    rows = made.rows
    rows.process()
    rows.scalars("critic/score/mean", [(1, 1, 0.5), (2, 2, math.nan)], statistic="mean")
    root = rows.span("verl.step", 0, 10, trace="t1", step=1, lane="trainer")
    rows.span("verl.phase.gen", 0, 5, trace="t1", parent=root, phase="gen", step=1, lane="trainer")
    rows.trajectory("u", 0, 0, 5, 1.0)
    rows.event(semconv.EVENT_RUN_START, 0, {semconv.RUN_ALGORITHM: "<script>alert(1)</script>"})
    return made
