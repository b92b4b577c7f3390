"""Which points are the scalars of which step: those of a process at the time of a snapshot's mark that have verl's key.

Mark and points mostly come in one request; where they don't, points wait for their mark and marks for their points.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb

from verl_otel.local.store.catalog import Catalog
from verl_otel.local.store.points import Number

_MOST_MARKS: Final = 256
_MOST_WAITING: Final = 8
"""Marks, and times of points without one, that are remembered of each process."""

_STORED: Final = """
SELECT s.series, p.time, p.value FROM points p JOIN series s USING (series)
WHERE p.time = ? AND s.process = ? AND s.key IS NOT NULL
"""
_MARKS: Final = """
SELECT s.process, p.time, p.value FROM points p JOIN series s USING (series)
WHERE s.metric = 'verl.step.snapshot' ORDER BY p.time DESC LIMIT 256
"""


@dataclass
class Snapshots:
    """Of one run."""

    steps: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """By process, the step of each mark's time."""
    waiting: dict[int, dict[int, list[Number]]] = field(default_factory=lambda: defaultdict(dict))
    """By process, points at times that have no mark."""
    fresh: bool = True
    """Points of before this object was made are in the database alone."""

    @classmethod
    def load(cls, connection: duckdb.DuckDBPyConnection) -> "Snapshots":
        """Marks that the database has. Raises `duckdb.Error`."""
        found = cls()
        for process, time, value in reversed(connection.execute(_MARKS).fetchall()):
            found._mark(process, time, value)
        return found

    def match(
        self, numbers: Sequence[Number], catalog: Catalog, connection: duckdb.DuckDBPyConnection
    ) -> list[tuple[int, str, float, int, int]]:
        """(step, key, value, time, process) of the scalars that became known by these points of `catalog.named`.

        Raises `duckdb.Error`.
        """
        keys, marks = catalog.keys, catalog.marks
        new: set[tuple[int, int]] = set()
        keyed: dict[tuple[int, int], list[Number]] = defaultdict(list)
        for point in numbers:
            series = point[0]
            if series in keys:
                keyed[keys[series][0], point[1]].append(point)
            elif series in marks and self._mark(marks[series], point[1], point[2]):
                new.add((marks[series], point[1]))
        for process, time in new:
            earlier = self.waiting[process].pop(time, [])
            if self.fresh:
                earlier = connection.execute(_STORED, [time, process]).fetchall()
            keyed[process, time] += earlier
        found = []
        for (process, time), points in keyed.items():
            step = self.steps[process].get(time) if process in self.steps else None
            if step is None:
                self._wait(process, time, points)
            else:
                found += [(step, keys[series][1], value, time, process) for series, _, value in points]
        self.fresh = False
        self._forget()
        return found

    def _mark(self, process: int, time: int, value: Any) -> bool:
        """Note a mark; False if it is no step or known."""
        known = self.steps[process]
        if time in known or value != value or not -(1 << 31) <= value < 1 << 31:
            return False
        known[time] = int(value)
        return True

    def _forget(self) -> None:
        """Only once all that came with them is matched: one batch may have thousands of steps."""
        for known in self.steps.values():
            while len(known) > _MOST_MARKS:
                del known[next(iter(known))]

    def _wait(self, process: int, time: int, points: list[Number]) -> None:
        waiting = self.waiting[process]
        waiting.setdefault(time, []).extend(points)
        if len(waiting) > _MOST_WAITING:
            del waiting[min(waiting)]
