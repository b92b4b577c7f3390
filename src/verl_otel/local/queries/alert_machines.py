"""What alerts ask of the run's machines and of its telemetry, as `alert_rules` does of its learning."""

import fnmatch
from typing import Final

from verl_otel import semconv
from verl_otel.local.queries.evidence import HOST, MINUTE, Evidence, Found, Labels
from verl_otel.semconv import hardware

_HELD_DOWN: Final = ("hardware*", "thermal", "power_brake")
_FAILED: Final = "failed"
_SYSTEM_MEMORY: Final = "system.memory.utilization"
_USED: Final = "used"


def is_held_down(reason: str) -> bool:
    """By heat or power; a power cap alone is normal."""
    return any(fnmatch.fnmatch(reason, one) for one in _HELD_DOWN)


def gpu_throttled(run: Evidence, tick: int, limit: float) -> Found:
    """By host and GPU: heat or power holds its clocks down."""
    labels = HOST, hardware.GPU_INDEX, hardware.GPU_THROTTLE_REASON
    found: Found = {}
    for (host, gpu, reason), line in run.gauge(hardware.GPU_THROTTLED.name, *labels).items():
        value = line.at(tick)
        if is_held_down(reason) and value is not None and value > limit:
            found[(gpu, host)] = value
    return found


def xid(run: Evidence, tick: int, limit: float) -> Found:
    """By error and host: the driver reported it in the last quarter of an hour."""
    labels = hardware.ERROR, HOST
    grown = run.increase(hardware.ERRORS.name, tick, 15 * MINUTE, *labels, from_zero=False)
    return {who: value for who, value in grown.items() if who[0].startswith("xid_") and value > limit}


def gpu_lost(run: Evidence, tick: int, limit: float) -> Found:
    """By host: the driver counts a GPU that doesn't answer."""
    found: Found = {}
    for (host, state), line in run.gauge(hardware.STATUS.name, HOST, hardware.HW_STATE).items():
        value = line.at(tick)
        if state == _FAILED and value is not None and value > limit:
            found[(host,)] = value
    return found


def host_memory_full(run: Evidence, tick: int, limit: float) -> Found:
    """By host: the container's memory, or the host's where it has no limit."""
    limits = {who: line.at(tick) for who, line in run.gauge(hardware.HOST_MEMORY_LIMIT.name, HOST).items()}
    used = {who: line.at(tick) for who, line in run.gauge(hardware.CONTAINER_MEMORY.name, HOST).items()}
    shares: dict[Labels, float | None] = {
        (host,): line.at(tick)
        for (host, state), line in run.gauge(_SYSTEM_MEMORY, HOST, "state").items()
        if state == _USED
    }
    shares |= {who: value / most for who, most in limits.items() if most and (value := used.get(who)) is not None}
    return {who: share for who, share in shares.items() if share is not None and share > limit}


def telemetry_lost(run: Evidence, tick: int, limit: float) -> Found:
    """By reason, in the last ten minutes."""
    found = run.increase(semconv.TELEMETRY_DROPPED.name, tick, 10 * MINUTE, semconv.DROP_REASON)
    return {who: value for who, value in found.items() if value > limit}


def telemetry_late(run: Evidence, tick: int, limit: float) -> Found:
    """The most that waits in a process."""
    lines = run.gauge(semconv.TELEMETRY_QUEUE.name).values()
    most = max((value for line in lines if (value := line.at(tick)) is not None), default=limit)
    return {(): most} if most > limit else {}
