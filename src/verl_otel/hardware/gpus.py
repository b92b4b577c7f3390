"""GPUs as metric data by OTel's hardware conventions, each from the one process on its host that holds its lock."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from opentelemetry.sdk.metrics.export import Metric

from verl_otel.delivery.points import counter, gauge, level
from verl_otel.hardware.locks import Lock
from verl_otel.hardware.nvml import Gpu, Nvml
from verl_otel.semconv import MetricName
from verl_otel.semconv import hardware as names

Points = list[tuple[dict[str, Any], float]]
Roles = Mapping[int, Mapping[str, Any]]
"""Role and rank by process id."""


class Gpus:
    """What this process reads of the host's GPUs."""

    def __init__(self, roles: Callable[[], Roles] = dict) -> None:
        """`roles`: of the processes on this node, asked for at each reading."""
        self._nvml = Nvml()
        self._roles = roles
        self._locks: dict[str, Lock] = {}
        self._since: int | None = None
        self._openings = 0
        self.seen = False
        """Whether there was any GPU."""

    def read(self, time: int) -> Iterator[Metric]:
        """The GPUs that are this process's to read. Raises what NVML does where there is no driver, or no more."""
        found = self._nvml.read()
        self.seen = self.seen or bool(found)
        mine = [one for one in found if self._is_mine(one.parent or one.uuid)]
        if self._since is None or self._openings != self._nvml.openings:
            self._since, self._openings = time, self._nvml.openings
        yield from _levels(mine, self._since, time)
        yield from _now(mine, self._nvml.driver, time)
        yield from _counted(mine, self._since, time)
        yield from _processes(mine, self._roles(), self._since, time)

    def close(self) -> None:
        """Leave the GPUs to others."""
        self._nvml.close()
        for lock in self._locks.values():
            lock.release()

    def _is_mine(self, uuid: str) -> bool:
        return self._locks.setdefault(uuid, Lock(f"gpu/{uuid}")).acquire()


def _who(one: Gpu) -> dict[str, Any]:
    found = {names.HW_ID: one.uuid, names.HW_TYPE: names.GPU, names.GPU_INDEX: one.index}
    return found if one.parent is None else {**found, names.HW_PARENT: one.parent}


def _points(gpus: Iterable[Gpu], read: Callable[[Gpu], float | None]) -> Points:
    return [(_who(one), value) for one in gpus if (value := read(one)) is not None]


def _kinds(gpus: Iterable[Gpu], label: str, read: Callable[[Gpu], Mapping[str, float]]) -> Points:
    return [({**_who(one), label: kind}, value) for one in gpus for kind, value in read(one).items()]


def _levels(gpus: list[Gpu], since: int, time: int) -> Iterator[Metric]:
    used = _points(gpus, lambda one: one.memory_used)
    total = _points(gpus, lambda one: one.memory_total)
    for metric, points in ((names.GPU_MEMORY_USAGE, used), (names.GPU_MEMORY_LIMIT, total)):
        if points:
            yield level(metric, points, since, time)
    states = [
        ({**_who(one), names.HW_STATE: state}, float((state == "failed") == one.lost))
        for one in gpus
        if one.parent is None
        for state in ("ok", "failed")
    ]
    if states:
        yield level(names.STATUS, states, since, time)


def _now(gpus: list[Gpu], driver: str | None, time: int) -> Iterator[Metric]:
    asked: tuple[tuple[MetricName, Points], ...] = (
        (names.GPU_UTILIZATION, _points(gpus, lambda one: one.utilization)),
        (names.GPU_MEMORY_UTILIZATION, _points(gpus, _memory_share)),
        (names.POWER, _points(gpus, lambda one: one.power)),
        (names.GPU_POWER_LIMIT, _points(gpus, lambda one: one.power_limit)),
        (names.TEMPERATURE, _points(gpus, lambda one: one.temperature)),
        (names.GPU_CLOCK_FREQUENCY, _kinds(gpus, names.GPU_CLOCK, lambda one: one.clocks)),
        (names.GPU_THROTTLED, _kinds(gpus, names.GPU_THROTTLE_REASON, lambda one: one.throttled)),
        (names.GPU_INFO, [({**_who(one), **_described(one, driver)}, 1) for one in gpus if one.name is not None]),
    )
    for metric, points in asked:
        if points:
            yield gauge(metric, points, time)


def _memory_share(one: Gpu) -> float | None:
    return one.memory_used / one.memory_total if one.memory_used is not None and one.memory_total else None


def _described(one: Gpu, driver: str | None) -> dict[str, str]:
    found = {names.HW_NAME: one.name, names.HW_VENDOR: "NVIDIA", names.HW_DRIVER: driver}
    return {key: value for key, value in found.items() if value is not None}


def _counted(gpus: list[Gpu], since: int, time: int) -> Iterator[Metric]:
    errors = _kinds(gpus, names.ERROR, lambda one: one.ecc)
    errors += _kinds(gpus, names.ERROR, lambda one: {f"xid_{number}": count for number, count in one.xids.items()})
    io = [
        ({**_who(one), names.GPU_LINK: link, names.IO_DIRECTION: direction}, count)
        for one in gpus
        for (link, direction), count in one.io.items()
    ]
    asked: tuple[tuple[MetricName, Points], ...] = (
        (names.ENERGY, _points(gpus, lambda one: one.energy)),
        (names.ERRORS, errors),
        (names.GPU_IO, [(labels, float(count)) for labels, count in io]),
        (names.GPU_THROTTLE_TIME, _kinds(gpus, names.GPU_THROTTLE_REASON, lambda one: one.throttle_time)),
    )
    for metric, points in asked:
        if points:
            yield counter(metric, points, since, time)


MOST_PROCESSES: Final = 32
"""Of one GPU that are shown."""


def _processes(gpus: list[Gpu], roles: Roles, since: int, time: int) -> Iterator[Metric]:
    points: Points = [
        ({**_who(one), names.PROCESS_PID: pid, **roles.get(pid, {})}, float(used))
        for one in gpus
        for pid, used in list(one.processes.items())[:MOST_PROCESSES]
        if used is not None
    ]
    if points:
        yield level(names.GPU_PROCESS_MEMORY, points, since, time)
