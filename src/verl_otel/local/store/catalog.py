"""The numbers of a run's processes and series: given once, found again by the bytes that name them.

Reading a point's attributes costs more than all the rest of it, so it is done once for each series.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import duckdb

from verl_otel import semconv
from verl_otel.local.store import attributes as read
from verl_otel.local.store import tables

_INSTANCE: Final = "service.instance.id"
_OWN: Final = "process."
"""Prefix of the metrics by which a process of ours tells of itself; they name its role and rank."""
TOLD: Final = frozenset({semconv.RUN_INFO.name, semconv.RUN_ENDED.name})
"""Metrics whose attributes say something of the run."""


@dataclass
class Process:
    """Who sends. `first`, `last`: of its data, ns since the epoch."""

    number: int
    instance: str
    attributes: Mapping[str, Any]
    role: str | None = None
    rank: int | None = None
    replica: int | None = None
    first: int = read.BIGGEST
    last: int = 0
    stored: bool = False
    changed: bool = True

    @property
    def attempt(self) -> int | None:
        """Of the run."""
        return read.int_or_none(self.attributes.get(semconv.RUN_ATTEMPT))

    @property
    def host(self) -> str | None:
        """That it runs on."""
        return read.text_or_none(self.attributes.get("host.name"))

    def saw(self, time: int) -> None:
        """It has data of that time."""
        if time > self.last:
            self.last, self.changed = time, True
        if 0 < time < self.first:
            self.first, self.changed = time, True

    def is_told(self, told: Mapping[str, Any]) -> None:
        """What it says it is; the first to be said stays."""
        if self.role is None and (role := read.text_or_none(told.get(semconv.ROLE))) is not None:
            self.role, self.changed = role, True
            self.rank = read.int_or_none(told.get(semconv.RANK))
            self.replica = read.int_or_none(told.get(semconv.REPLICA))

    def row(self) -> tuple[Any, ...]:
        """For the table."""
        pid = self.attributes.get("process.pid")
        first = None if self.first == read.BIGGEST else self.first
        return (
            self.number,
            self.instance,
            self.host,
            pid if isinstance(pid, int) and not isinstance(pid, bool) else None,
            self.attempt,
            self.role,
            self.rank,
            self.replica,
            read.to_json(self.attributes),
            first,
            self.last or None,
        )


class Kind(NamedTuple):
    """What a series is, beside its attributes."""

    process: int
    scope: str
    metric: str
    unit: str
    kind: str
    monotonic: bool
    delta: bool


@dataclass
class Catalog:
    """Of one run. `told`: attributes of series of `TOLD` that were new, until somebody takes them."""

    processes: dict[str, Process] = field(default_factory=dict)
    keys: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Process and verl's key of each series that has one."""
    marks: dict[int, int] = field(default_factory=dict)
    """Process of each series of snapshots' marks."""
    named: set[int] = field(default_factory=set)
    """Both of these."""
    new: list[tuple[Any, ...]] = field(default_factory=list)
    told: list[tuple[str, Process, Mapping[str, Any]]] = field(default_factory=list)
    _by_bytes: dict[bytes, Process] = field(default_factory=dict)
    _by_kind: dict[Kind, dict[tuple[bytes, ...], int]] = field(default_factory=dict)
    _parts: dict[bytes, bytes] = field(default_factory=dict)
    _stored: dict[bytes, int] = field(default_factory=dict)
    _next: int = 1

    @classmethod
    def load(cls, connection: duckdb.DuckDBPyConnection) -> "Catalog":
        """What the database has. Raises `duckdb.Error`."""
        found = cls()
        processes = connection.execute(
            "SELECT process, instance, attributes, role, rank, replica, first_seen, last_seen FROM processes"
        ).fetchall()
        for number, instance, attributes, role, rank, replica, first, last in processes:
            told = read.from_json(attributes)
            found.processes[instance] = Process(
                number,
                instance,
                told,
                role,
                rank,
                replica,
                first or read.BIGGEST,
                last or 0,
                stored=True,
                changed=False,
            )
        series = connection.execute(
            "SELECT series, process, scope, metric, unit, kind, monotonic, delta, key, attributes FROM series"
        )
        while rows := series.fetchmany(10_000):
            for number, *kind, key, attributes in rows:
                named = Kind(*kind)
                found._stored[_digest(named, attributes)] = number
                found._note(number, named, key)
                found._next = max(found._next, number + 1)
        return found

    def known(self, resource: bytes) -> Process | None:
        """The process with this resource, if it told something before."""
        return self._by_bytes.get(resource)

    def process(self, resource: bytes, pairs: Any) -> Process:
        """The one with this resource: its bytes, its attributes as OTLP has them."""
        if (known := self._by_bytes.get(resource)) is not None:
            return known
        told = read.plain(pairs)
        instance = read.text_or_none(told.get(_INSTANCE)) or f"resource-{hashlib.sha256(resource).hexdigest()[:16]}"
        found = self.processes.get(instance)
        if found is None:
            found = self.processes[instance] = Process(len(self.processes) + 1, instance, told)
            found.is_told(told)
        self._by_bytes[resource] = found
        return found

    def series_of(self, kind: Kind) -> dict[tuple[bytes, ...], int]:
        """Numbers of the metric's series that are known, by the bytes of their attributes, in their order."""
        return self._by_kind.setdefault(kind, {})

    def add(self, kind: Kind, parts: tuple[bytes, ...], pairs: Any, process: Process) -> int:
        """The number of a series that isn't there yet, with attributes as OTLP has them."""
        told = dict(sorted(read.plain(pairs).items()))
        text = read.to_json(told)
        number = self._stored.pop(_digest(kind, text), 0) if self._stored else 0
        if not number:
            number, self._next = self._next, self._next + 1
            key = read.text_or_none(told.get(semconv.METRIC_KEY))
            self.new.append((number, *_columns(kind), key, text))
            self._note(number, kind, key)
        if kind.metric.startswith(_OWN):
            process.is_told(told)
        if kind.metric in TOLD:
            self.told.append((kind.metric, process, told))
        shared = tuple(self._parts.setdefault(part, part) for part in parts)
        self._by_kind[kind][shared] = number
        return number

    def write(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Bring what is new or changed into the database, in its transaction. Raises `duckdb.Error`."""
        tables.insert(connection, "series", self.new)
        self.new.clear()
        changed = [one for one in self.processes.values() if one.changed]
        tables.insert(connection, "processes", [one.row() for one in changed if not one.stored])
        if older := [one for one in changed if one.stored]:
            tables.update_processes(connection, [one.row() for one in older])
        for one in changed:
            one.stored, one.changed = True, False

    def _note(self, number: int, kind: Kind, key: str | None) -> None:
        if kind.metric == semconv.STEP_SNAPSHOT.name or key is not None:
            self.named.add(number)
        if kind.metric == semconv.STEP_SNAPSHOT.name:
            self.marks[number] = kind.process
        elif key is not None:
            self.keys[number] = kind.process, key


def _columns(kind: Kind) -> tuple[Any, ...]:
    return (kind.metric, kind.unit, kind.kind, kind.monotonic, kind.delta, kind.scope, kind.process)


def _digest(kind: Kind, attributes: str) -> bytes:
    return hashlib.blake2b("\0".join((*map(str, kind), attributes)).encode(), digest_size=16).digest()
