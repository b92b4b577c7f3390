"""Can the numbers be trusted: what of the telemetry was lost, late or left out; and what flows through the queue."""

from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.evidence import HOST
from verl_otel.local.queries.metrics import growth, newest
from verl_otel.local.queries.panels import Counter, Gauge, Panel, Quantiles, drawn, table
from verl_otel.local.queries.reading import SECOND, Cursor, rows
from verl_otel.local.queries.waits import PhaseShare
from verl_otel.local.queries.windows import window

_NOTHING: Final = "nothing was told: the run's processes export no metrics of their own"
_WELL: Final = "nothing was missed, left out or cut, and nothing failed"
_NO_QUEUE: Final = "the trainer has no TransferQueue"
_REASON: Final = (semconv.SIGNAL, semconv.DROP_REASON)

PANELS: Final = (
    Panel(
        "waits",
        "Who waits for whom?",
        "Both are low; a high one names the side that is starved.",
        "1",
        (
            PhaseShare("gen", "trainer waits for rollouts"),
            Gauge(semconv.REPLICA_IDLE.name, (), "replicas idle", {semconv.ROLE: "rollout"}, "avg", "avg"),
        ),
        "no step has ended yet, and no replica was observed",
    ),
    Panel(
        "dropped",
        "Was anything lost?",
        "0.",
        "{item}",
        (Counter(semconv.TELEMETRY_DROPPED.name, _REASON, per_second=False),),
        _NOTHING,
    ),
    Panel(
        "waiting",
        "Does anything wait to be sent?",
        "Near 0; up to VERL_OTEL_QUEUE_MIB while the backend is away.",
        "By",
        (Gauge(semconv.TELEMETRY_QUEUE.name, (HOST,)),),
        _NOTHING,
        16 * 1024 * 1024,
    ),
    Panel(
        "sent",
        "How much is sent?",
        "Steady.",
        "{item}/s",
        tuple(Counter(metric.name, (), signal) for signal, metric in semconv.EXPORTED.items()),
        _NOTHING,
    ),
    Panel(
        "retries",
        "Was anything sent again?",
        "0 while the backend answers.",
        "{request}",
        (Counter(semconv.TELEMETRY_RETRIES.name, (semconv.SIGNAL,), per_second=False),),
        _NOTHING,
    ),
    Panel(
        "failures",
        "Did verl-otel itself fail?",
        "Nothing. Each is a bug: what it says goes into an issue.",
        "{error}",
        (Counter(semconv.TELEMETRY_ERRORS.name, (semconv.PLACE,), per_second=False),),
        _WELL,
    ),
    Panel(
        "missed",
        "Which readings were missed?",
        "None: pages, drivers and registries that hang or are broken.",
        "{reading}",
        (Counter(semconv.TELEMETRY_MISSED.name, (semconv.SOURCE, semconv.MISS_REASON), per_second=False),),
        _WELL,
    ),
    Panel(
        "left_out",
        "Were scalars left out?",
        "0.",
        "{value}",
        (
            Counter(semconv.METRIC_SKIPPED.name, (), "no number", per_second=False),
            Counter(semconv.METRIC_CUT.name, (), "too many keys", per_second=False),
            Counter(semconv.METRIC_NONFINITE.name, (semconv.METRIC_KEY,), "not finite", per_second=False),
        ),
        _WELL,
    ),
    Panel(
        "staleness",
        "How stale is what is trained on?",
        "Within the bound that was set.",
        "{version}",
        (Quantiles(semconv.ROLLOUT_STALENESS.name),),
        "no versions of weights were told",
        4,
    ),
    Panel(
        "groups",
        "Does the buffer fill or starve?",
        "Finished ones wait for the trainer, pending ones for the engines.",
        "{group}",
        (Gauge(semconv.ROLLOUT_GROUPS.name, (semconv.ROLLOUT_STATE,), join="sum"),),
        "the trainer has no buffer of groups: V1 trainers have one",
    ),
    Panel(
        "queue_time",
        "Is TransferQueue slow?",
        "Milliseconds; a batch of images more.",
        "s",
        (Quantiles(semconv.QUEUE_DURATION.name, label=semconv.QUEUE_OPERATION),),
        _NO_QUEUE,
    ),
    Panel(
        "queue_requests",
        "What is asked of its controller?",
        "As the trainer asks.",
        "{request}/s",
        (Counter("tq_controller_request_total", ("op_type",)),),
        _NO_QUEUE,
    ),
    Panel(
        "queue_samples",
        "Does a partition empty itself?",
        "Back to near 0 after each step: what stays was neither trained on nor cleared.",
        "{sample}",
        (Gauge("tq_partition_samples_total", ("partition_id",)),),
        _NO_QUEUE,
    ),
)

_HOSTS: Final = """
    SELECT coalesce(host, '') AS host, count(*) AS processes, max(last_seen) AS last FROM processes
    GROUP BY ALL ORDER BY last
"""


def pipeline(cursor: Cursor, begin: float | None = None, end: float | None = None, width: int = 1200) -> dict[str, Any]:
    """Panels between two times in ms; how old each host's data is, and what was lost in all, by reason.

    Raises `ParameterError`.
    """
    cut = window(cursor, begin, end, width)
    return {"panels": drawn(cursor, PANELS, cut), "rows": [_hosts(cursor, cut.end), _losses(cursor, cut.end)]}


def _hosts(cursor: Cursor, at: int) -> dict[str, Any]:
    found = rows(cursor, _HOSTS)
    newest_of_all = max((one["last"] for one in found if one["last"] is not None), default=0)
    waiting: dict[str, float] = {}
    for one in newest(cursor, semconv.TELEMETRY_QUEUE.name, at):
        waiting[one["host"] or ""] = waiting.get(one["host"] or "", 0.0) + one["value"]
    columns = ("host", "processes", "behind the newest, s", "waiting to be sent, B")
    return table(
        "Hosts, the one that was silent longest first",
        columns,
        [
            [
                one["host"],
                one["processes"],
                None if one["last"] is None else (newest_of_all - one["last"]) / SECOND,
                waiting.get(one["host"]),
            ]
            for one in found
        ],
    )


def _losses(cursor: Cursor, at: int) -> dict[str, Any]:
    found = growth(cursor, semconv.TELEMETRY_DROPPED.name, at, labels=_REASON)
    lost = sorted(((count, who) for who, count in found.items() if count), reverse=True)
    columns = ("signal", "reason", "items")
    return table("Lost, by signal and reason", columns, [[*who, count] for count, who in lost])
