"""The alerts of `stack/prometheus/rules/alerts.yaml` that one run's data can fire, without Prometheus."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from verl_otel.local.queries import alert_machines as machines
from verl_otel.local.queries import alert_rules as rules
from verl_otel.local.queries.evidence import HOUR, TICK, Evidence, Found, Labels
from verl_otel.local.queries.reading import MILLISECOND, SECOND, Cursor

WARNING: Final = "warning"
CRITICAL: Final = "critical"
_RUNBOOK: Final = "docs/alerts.md#"
_FURTHEST: Final = 4 * HOUR
"""How far back the beginning of an alert is looked for, in ticks."""


@dataclass(frozen=True)
class Rule:
    """`find(evidence, tick, *limits)` says for whom it is so, and by which value.

    `minutes`: for which it must have been so. `summary`: with the `value` and whom, by place. `page`: of the runbook,
    if not of its name. `by_clock`: asked for now, not for the newest data.
    """

    name: str
    severity: str
    minutes: int
    limits: tuple[float, ...]
    find: Callable[..., Found]
    summary: str
    page: str = ""
    by_clock: bool = False

    @property
    def runbook(self) -> str:
        """Where it is said what to do."""
        return _RUNBOOK + (self.page or self.name).lower()


_DISAGREES: Final = "Engine and trainer give the same tokens probabilities that differ by {value:.3g} on average"

RULES: Final = (
    Rule(
        "VerlRolloutAndTrainerDisagree",
        WARNING,
        5,
        (0.005,),
        partial(rules.above, key=rules.DISAGREEMENT),
        _DISAGREES,
    ),
    Rule(
        "VerlRolloutAndTrainerDisagreeBadly",
        CRITICAL,
        1,
        (0.01,),
        partial(rules.above, key=rules.DISAGREEMENT),
        _DISAGREES,
        "VerlRolloutAndTrainerDisagree",
    ),
    Rule(
        "VerlCorrelationFalls",
        WARNING,
        10,
        (0.99, 0),
        rules.correlation_falls,
        "The probabilities of engine and trainer correlate by {value:.3g} only, and falling",
    ),
    Rule(
        "VerlRewardCollapsed",
        CRITICAL,
        5,
        (4, 0),
        rules.reward_collapsed,
        "The mean score fell to {value:.3g}, far below its last hour",
    ),
    Rule(
        "VerlEntropyCollapsed",
        WARNING,
        10,
        (0.1,),
        rules.entropy_collapsed,
        "Entropy is {value:.3g} nat, under a tenth of what it was",
    ),
    Rule(
        "VerlKlBlowsUp",
        CRITICAL,
        5,
        (4, 0.1),
        rules.kl_blows_up,
        "KL of an update is {value:.3g} nat, far above its last hour",
    ),
    Rule(
        "VerlGradientSpikes",
        WARNING,
        0,
        (10,),
        rules.gradient_spikes,
        "The gradient's norm is {value:.3g}, over ten times its median of the last hour",
    ),
    Rule("VerlNotFinite", CRITICAL, 0, (0,), rules.not_finite, "{0} is NaN or infinite"),
    Rule(
        "VerlClipsMuch",
        WARNING,
        10,
        (0.3,),
        partial(rules.above, key=rules.CLIPPED),
        "{value:.0%} of the tokens are clipped",
    ),
    Rule(
        "VerlResponsesAtTheirLimit",
        WARNING,
        10,
        (0.2,),
        partial(rules.above, key=rules.AT_LIMIT),
        "{value:.0%} of the responses end at data.max_response_length",
    ),
    Rule(
        "VerlGroupsTeachNothing",
        WARNING,
        15,
        (0.8,),
        rules.groups_teach_nothing,
        "In {value:.0%} of the groups all rewards are equal",
    ),
    Rule(
        "VerlStale",
        WARNING,
        10,
        (0.95, 4),
        rules.stale,
        "Trajectories are trained on {value:.3g} versions of the weights late",
    ),
    Rule("VerlPhaseStuck", CRITICAL, 0, (600, 3), rules.phase_stuck, "{0} has been going on for {value:.0f} s"),
    Rule(
        "VerlRankStraggles",
        WARNING,
        15,
        (0.2,),
        rules.rank_straggles,
        "In {0} the slowest rank costs {value:.0%} of the phase",
    ),
    Rule("VerlReplicaIdle", WARNING, 5, (0.95, 0.2), rules.replica_idle, "Replica {0} idles while others work"),
    Rule(
        "VerlReplicaGone",
        CRITICAL,
        2,
        (),
        rules.replica_gone,
        "A rollout replica that was there half an hour ago says nothing any more",
    ),
    Rule(
        "VerlCacheFull",
        WARNING,
        5,
        (0.95, 0),
        rules.cache_full,
        "Replica {0} preempts requests, its KV cache is full",
    ),
    Rule(
        "VerlWeightSyncSlow",
        WARNING,
        10,
        (2, 0.5, 5),
        rules.weight_sync_slow,
        "New weights take {value:.3g} s to reach the engines, twice the usual",
    ),
    Rule(
        "VerlSamplesLost",
        WARNING,
        0,
        (0,),
        rules.samples_lost,
        "{value:.0f} trajectories that were asked for were not trained on",
    ),
    Rule(
        "VerlRunVanished",
        CRITICAL,
        1,
        (),
        rules.run_vanished,
        "The run stopped telling anything, and never said that it ended",
        by_clock=True,
    ),
    Rule("VerlGpuThrottled", WARNING, 5, (0,), machines.gpu_throttled, "GPU {0} of {1} is held down"),
    Rule("VerlXid", CRITICAL, 0, (0,), machines.xid, "{0} on a GPU of {1}"),
    Rule("VerlGpuLost", CRITICAL, 0, (0,), machines.gpu_lost, "A GPU of {0} doesn't answer any more"),
    Rule(
        "VerlHostMemoryFull",
        CRITICAL,
        2,
        (0.92,),
        machines.host_memory_full,
        "Memory of {0} is {value:.0%} full; Ray kills at 95 %",
    ),
    Rule("VerlTelemetryLost", WARNING, 0, (0,), machines.telemetry_lost, "{value:.0f} items were dropped: {0}"),
    Rule(
        "VerlTelemetryLate",
        WARNING,
        2,
        (16 * 1024 * 1024,),
        machines.telemetry_late,
        "A process has {value:,.0f} B waiting to be sent",
    ),
)

NOT_OF_A_RUN: Final[Mapping[str, str]] = {
    "VerlCollectorSheds": "a collector's own metrics belong to no run, and there is none between a run and this backend"
}
"""Alerts that can't be computed here, and why."""


def firing(cursor: Cursor, at: int, *, now: int | None = None, ended: bool = False) -> list[dict[str, Any]]:
    """Those that fire at a time in ns, critical ones first. `now`: of the clock; `ended`: the run told of its end."""
    evidence = Evidence(cursor, at, now=now, ended=ended)
    found = [alert for rule in RULES for alert in _firing(rule, evidence)]
    return sorted(found, key=lambda one: one["severity"] != CRITICAL)


def _firing(rule: Rule, evidence: Evidence) -> list[dict[str, Any]]:
    last = evidence.now // TICK if rule.by_clock else evidence.tick
    alerts = []
    for who, value in rule.find(evidence, last, *rule.limits).items():
        since = _since(rule, evidence, last, who)
        if (last - since) * TICK >= rule.minutes * 60 * SECOND:
            alerts.append(
                {
                    "name": rule.name,
                    "severity": rule.severity,
                    "summary": rule.summary.format(*who, value=value),
                    "since": since * TICK / MILLISECOND,
                    "runbook": rule.runbook,
                }
            )
    return alerts


def _since(rule: Rule, evidence: Evidence, last: int, who: Labels) -> int:
    """The tick since which it has been so without a break."""
    since = last
    while last - since < _FURTHEST and who in rule.find(evidence, since - 1, *rule.limits):
        since -= 1
    return since
