"""A big run's processes, made of a small run's: each sends what its model sent, as itself, at a big run's rates.

Requests are encoded beforehand. What differs from one sending to the next (times, trace ids) is found in the bytes by
marks of 8 bytes and written over, so that the generator costs little beside the collector that it measures.
"""

import random
import struct
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recorder import read_capture
from verl_otel import semconv

NODE: Final = 8
"""Ranks of a host."""
INTERVAL: Final = 10.0
"""Seconds between collections of metrics, as is usual."""

_NOW, _BEFORE, _TRACE = (bytes([letter]) * 8 for letter in b"\xa7\xb7\xc7")
_TIMES: Final = {"time_unix_nano": _NOW, "end_time_unix_nano": _NOW, "observed_time_unix_nano": _NOW}
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True)
class Kind:
    """Processes of a kind. `model`: name of a span or metric that tells its process in the small run from others.

    `spans`: a second, of one such process.
    """

    name: str
    count: int
    model: str
    spans: float = 0.0


def kinds(ranks: int, replicas: int, trajectories: int, step: float) -> list[Kind]:
    """Those of a run with `trajectories` in each step of `step` s; each replica has a reward and an agent worker."""
    each = trajectories / step / replicas
    return [
        Kind("driver", 1, semconv.SPAN_STEP, 20 / step),
        Kind("rank", ranks, "verl.worker.update_actor", 3 / step),
        Kind("replica", replicas, semconv.SPAN_GENERATE_SERVER, each),
        Kind("agent worker", replicas, "invoke_agent", 3 * each),
        Kind("reward worker", replicas, semconv.SPAN_REWARD, each),
        Kind("host with GPUs", ranks // NODE, "hw.gpu.utilization"),
    ]


@dataclass
class Template:
    """A request's bytes, and where in them each mark was. `items`: points or spans."""

    path: str
    body: bytearray
    marks: dict[bytes, list[int]]
    items: int

    @classmethod
    def of(cls, path: str, request: Any, items: int) -> "Template":
        """From a request in which the marks are."""
        body = request.SerializeToString()
        return cls(path, bytearray(body), {mark: list(_places(body, mark)) for mark in (_NOW, _BEFORE, _TRACE)}, items)

    def stamp(self, now: int, dice: random.Random) -> bytearray:
        """Its bytes as sent at `now`, ns since the epoch; the same object each time."""
        values = {_NOW: struct.pack("<Q", now), _BEFORE: struct.pack("<Q", now - _SECOND), _TRACE: dice.randbytes(8)}
        for mark, places in self.marks.items():
            for place in places:
                self.body[place : place + 8] = values[mark]
        return self.body


@dataclass
class Speaker:
    """A process: its requests, each with the seconds between two of them."""

    requests: list[tuple[float, Template]]


def speakers(capture: Path, wanted: list[Kind]) -> Iterator[Speaker]:
    """The fleet. Raises `ValueError` if the small run has no process for a kind."""
    models = _models(capture)
    for kind in wanted:
        model = next((one for names, one in models if kind.model in names), None)
        if model is None:
            raise ValueError(f"{capture} has no process for a {kind.name} ({kind.model})")
        for number in range(kind.count):
            yield Speaker([(every, _as(number, kind, *one)) for every, one in model.rhythm(kind.spans)])


class _Model:
    """What a process of the small run sent: (path, request, items)."""

    def __init__(self) -> None:
        self.metrics: list[tuple[str, Any, int]] = []
        self.traces: list[tuple[str, Any, int]] = []

    def rhythm(self, spans: float) -> Iterator[tuple[float, tuple[str, Any, int]]]:
        """Its fullest metrics each interval; of its spans the request whose number comes next to a second's."""
        yield INTERVAL, max(self.metrics, key=lambda one: one[2])
        if spans:
            chosen = min(self.traces, key=lambda one: abs(one[2] - max(1, spans)))
            yield chosen[2] / spans, chosen


def _models(capture: Path) -> list[tuple[set[str], _Model]]:
    found: dict[int, tuple[set[str], _Model]] = defaultdict(lambda: (set(), _Model()))
    for signal, request in read_capture(capture):
        if signal == "logs":
            continue
        resources = request.resource_metrics if signal == "metrics" else request.resource_spans
        # A process's request may name it several times, as it came to know more of itself.
        names = {name.split(" ")[0] for resource in resources for name, _ in _items(resource)}
        told = {one.key: one.value for one in resources[0].resource.attributes}
        known, model = found[told["process.pid"].int_value]
        known.update(names)
        count = sum(1 for resource in resources for _ in _items(resource))
        getattr(model, signal).append((f"/v1/{signal}", request, count))
    return list(found.values())


def _items(resource: Any) -> Iterator[tuple[str, Any]]:
    """(name, point or span) of each."""
    if hasattr(resource, "scope_spans"):
        yield from ((one.name, one) for scope in resource.scope_spans for one in scope.spans)
        return
    for scope in resource.scope_metrics:
        for one in scope.metrics:
            yield from ((one.name, point) for point in getattr(one, one.WhichOneof("data")).data_points)


def _as(number: int, kind: Kind, path: str, request: Any, items: int) -> Template:
    """The request as this process's own."""
    copied = type(request)()
    copied.CopyFrom(request)
    own: dict[str, Callable[[Any], None]] = {
        "service.instance.id": lambda value: setattr(value, "string_value", str(uuid.uuid4())),
        "host.name": lambda value: setattr(value, "string_value", f"node-{number // NODE}"),
        "process.pid": lambda value: setattr(value, "int_value", 1000 + number),
        semconv.RANK: lambda value: setattr(value, "int_value", number),
        semconv.REPLICA: lambda value: setattr(value, "string_value", str(number)),
    }
    for resource in copied.resource_metrics if path.endswith("metrics") else copied.resource_spans:
        _rename(resource.resource.attributes, own)
        for _, item in _items(resource):
            _rename(item.attributes, own)
            _mark(item)
    return Template.of(path, copied, items)


def _rename(attributes: Any, own: dict[str, Callable[[Any], None]]) -> None:
    for one in attributes:
        if one.key in own:
            own[one.key](one.value)


def _mark(item: Any) -> None:
    for name, mark in _TIMES.items():
        if hasattr(item, name):
            setattr(item, name, int.from_bytes(mark, "little"))
    if hasattr(item, "trace_id"):
        item.start_time_unix_nano = int.from_bytes(_BEFORE, "little")
        item.trace_id = _TRACE + item.trace_id[8:]


def _places(body: bytes, mark: bytes) -> Iterator[int]:
    place = body.find(mark)
    while place >= 0:
        yield place
        place = body.find(mark, place + 8)
