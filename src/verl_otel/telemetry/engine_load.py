"""How much of itself an engine used: peaks between two exports, which a gauge that is read then would miss.

"Peak running 12 of 256 allowed" says that a replica could take more; preemptions beside a full KV cache say that it
took too much.
"""

import os
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from verl_otel import runtime, semconv
from verl_otel.telemetry import neighbours, replicas
from verl_otel.telemetry.instruments import produce

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

TOLD_EVERY: Final = 1.0
ENGINE: Final = "engine"
"""Kind of the message to whoever looks after the node."""


class Load(NamedTuple):
    """Requests that run now, and share of the KV cache in use (0 to 1)."""

    running: int
    kv_cache: float


class _Peaks:
    """Of this process's engine, over its cores."""

    def __init__(self) -> None:
        self.running = 0
        self.kv_cache = 0.0

    def see(self, now: Load) -> None:
        self.running, self.kv_cache = max(self.running, now.running), max(self.kv_cache, now.kv_cache)


class _Engine:
    """This process's engine."""

    def __init__(self) -> None:
        self.limit: int | None = None
        self.cores: dict[int, Load] = {}
        self.preemptions = 0
        self.exported, self.told = _Peaks(), _Peaks()
        self.told_at = 0.0


_engine = _Engine()


def may_run(limit: int | None) -> None:
    """The engine may run so many requests at once, on each of its cores."""
    _engine.limit = limit


def saw(core: int, load: Load, preempted: int) -> None:
    """What one of the engine's cores did in one iteration; `preempted`: requests in it. Called for each iteration."""
    _engine.cores[core] = load
    _engine.preemptions += preempted
    if len(_engine.cores) > 1:
        cores = _engine.cores.values()
        load = Load(sum(one.running for one in cores), max(one.kv_cache for one in cores))
    _engine.exported.see(load)
    _engine.told.see(load)


def tell() -> None:
    """Tell the node of the peaks since the last time."""
    if not _engine.cores or monotonic() - _engine.told_at < TOLD_EVERY:
        return
    _engine.told_at = monotonic()
    peaks, _engine.told = _engine.told, _Peaks()
    one, limit = replicas.replica(), _limit()
    values = {
        "running_peak": peaks.running,
        "kv_cache_peak": peaks.kv_cache,
        "preemptions": _engine.preemptions,
        **({} if limit is None else {"running_limit": limit}),
    }
    neighbours.tell(ENGINE, {"role": one.role, "replica": one.rank, "values": values})


def _limit() -> int | None:
    return None if _engine.limit is None else _engine.limit * max(1, len(_engine.cores))


def produced(time: int) -> "Iterable[Metric]":
    """Peaks since the last time this was asked."""
    from verl_otel.delivery.points import gauge

    if not _engine.cores:
        return
    labels, peaks = replicas.identity(), _engine.exported
    _engine.exported = _Peaks()
    yield gauge(semconv.ENGINE_RUNNING_PEAK, [(labels, peaks.running)], time)
    yield gauge(semconv.ENGINE_KV_PEAK, [(labels, peaks.kv_cache)], time)
    if (limit := _limit()) is not None:
        yield gauge(semconv.ENGINE_RUNNING_LIMIT, [(labels, limit)], time)


def reset() -> None:
    """Forget it, in a forked child and between tests."""
    global _engine
    _engine = _Engine()


produce(produced)
runtime.on_start(lambda started: started.pipeline.watch(tell, every=TOLD_EVERY))
os.register_at_fork(after_in_child=reset)
