"""Is inference healthy, and is it used?"""

from collections.abc import Sequence
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.engine_panels import ANY, SGLANG, VLLM, WHO
from verl_otel.local.queries.metrics import growth, newest
from verl_otel.local.queries.panels import Panel, drawn, table
from verl_otel.local.queries.reading import Cursor, rows
from verl_otel.local.queries.windows import window

_ENGINES: Final = "SELECT DISTINCT split_part(metric, ':', 1) AS engine FROM series WHERE contains(metric, ':')"
_COLUMNS: Final = (
    "replica",
    "host",
    "running",
    "most at once",
    "allowed",
    "KV cache",
    "preemptions",
    "idle",
    "weights",
)


def engine(cursor: Cursor, begin: float | None = None, end: float | None = None, width: int = 1200) -> dict[str, Any]:
    """Panels between two times in ms, and the replicas as they were last. Raises `ParameterError`."""
    cut = window(cursor, begin, end, width)
    return {"panels": drawn(cursor, [*ANY, *_of_engine(cursor)], cut), "rows": [_replicas(cursor, cut.end)]}


def _of_engine(cursor: Cursor) -> Sequence[Panel]:
    """Those of the engine that there is; where none tells, those of vLLM say why they are empty."""
    there = {one["engine"] for one in rows(cursor, _ENGINES)}
    if "sglang" not in there:
        return VLLM
    return (*VLLM, *SGLANG) if "vllm" in there else SGLANG


def _replicas(cursor: Cursor, at: int) -> dict[str, Any]:
    """The busiest first."""
    by_metric = {
        metric: {_who(one["attributes"]): one for one in newest(cursor, metric, at)}
        for metric in (
            semconv.REPLICA_IDLE.name,
            semconv.ENGINE_RUNNING_PEAK.name,
            semconv.ENGINE_RUNNING_LIMIT.name,
            semconv.ENGINE_KV_PEAK.name,
            semconv.REPLICA_WEIGHTS.name,
        )
    }
    running = {
        _who(one["attributes"]): one["value"]
        for one in newest(cursor, semconv.ENGINE_IN_FLIGHT.name, at)
        if one["attributes"].get(semconv.ENGINE_STATE) == "running"
    }
    preempted = growth(cursor, "vllm:num_preemptions_total", at, labels=WHO)
    idle, peak, limit, cache, weights = by_metric.values()

    def value(of: dict[tuple[str, str], Any], who: tuple[str, str]) -> float | None:
        return of[who]["value"] if who in of else None

    found = [
        [
            " ".join(who).strip(),
            one["host"],
            running.get(who),
            value(peak, who),
            value(limit, who),
            value(cache, who),
            preempted.get(who),
            one["value"],
            value(weights, who),
        ]
        for who, one in sorted(idle.items(), key=lambda item: item[1]["value"])
    ]
    return table("Replicas, the busiest first", _COLUMNS, found)


def _who(attributes: dict[str, Any]) -> tuple[str, str]:
    role, replica = (attributes.get(name) for name in WHO)
    return str(role or ""), "" if replica is None else str(replica)
