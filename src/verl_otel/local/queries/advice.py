"""What to change, by what the last steps and minutes show. Alerts come first: see `overview`."""

from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries import alert_rules as rules
from verl_otel.local.queries.evidence import MINUTE, Evidence, Labels, Line
from verl_otel.local.queries.reading import Cursor, row, rows

RECENT_STEPS: Final = 10
_MINUTES: Final = 15 * MINUTE
_ROLLOUT: Final = "rollout"

FEW_RUNNING: Final = 0.25
CACHE_FULL: Final = 0.95
MOSTLY: Final = 0.6
"""Share of a step above which one phase is what to work on."""
IDLE: Final = 0.5
MUCH_OVERHEAD: Final = 0.15
TOO_EQUAL: Final = 0.5
AT_LIMIT: Final = 0.1
LONG_TAIL: Final = 4.0
MANY: Final = 32
"""Trajectories below which there is no tail to speak of."""

_RECENT: Final = """
    SELECT key, avg(value) AS value FROM scalars
    WHERE list_contains($keys, key) AND isfinite(value) AND step > (SELECT max(step) FROM scalars) - $steps
    GROUP BY key
"""
_SHARES: Final = """
    WITH recent AS (
        SELECT step, key, arg_max(value, time) AS value FROM scalars
        WHERE starts_with(key, $prefix) AND step > (SELECT max(step) FROM scalars) - $steps GROUP BY step, key
    ),
    whole AS (SELECT step, value AS total FROM recent WHERE key = $prefix || 'step' AND value > 0)
    SELECT replace(key, $prefix, '') AS phase, sum(value) / sum(total) AS share FROM recent JOIN whole USING (step)
    WHERE key <> $prefix || 'step' GROUP BY key
"""
_TAIL: Final = """
    SELECT count(*) AS many, median("end" - start) / 1e9 AS middle, quantile_cont("end" - start, 0.95) / 1e9 AS late
    FROM trajectories WHERE NOT coalesce(validation, false)
        AND step = (SELECT max(step) FROM trajectories WHERE NOT coalesce(validation, false))
"""

_Advice = dict[str, Any]


def advice(cursor: Cursor, at: int) -> list[_Advice]:
    """What is worth a try at a time in ns, the biggest first."""
    run = Evidence(cursor, at)
    shares = {one["phase"]: one["share"] for one in rows(cursor, _SHARES, _recently(prefix=rules.TIMING))}
    found = [*_time(shares, run), *_engines(run), *_learning(cursor, run), *_tail(cursor)]
    return [{"key": key, "title": title, "text": text} for key, title, text in found]


def _recently(**more: Any) -> dict[str, Any]:
    return {"steps": RECENT_STEPS, **more}


_Found = Iterator[tuple[str, str, str]]


def _most(lines: Callable[[], dict[Labels, Line]], tick: int) -> dict[Labels, float]:
    found = {who: line.over(tick - _MINUTES, tick) for who, line in lines().items()}
    return {who: max(values) for who, values in found.items() if values}


def _time(shares: dict[str, float], run: Evidence) -> _Found:
    generating, idle = shares.get("gen", 0.0), _idle(run)
    if generating > MOSTLY:
        text = (
            "The trainer waits for the rollouts. More or faster replicas, shorter responses, or an asynchronous "
            "trainer, which trains while they generate."
        )
        yield "starved", f"Rollouts take {generating:.0%} of a step", text
    elif idle is not None and idle > IDLE:
        text = "The engines wait for the trainer. Give GPUs to the trainer, or let more be generated ahead of it."
        yield "rollout_idle", f"Replicas idle {idle:.0%} of the time", text
    if (share := shares.get("update_weights", 0.0)) > MUCH_OVERHEAD:
        text = "Look at verl.worker.update_weights by rank, and at the network between trainer and engines."
        yield "weight_sync", f"New weights take {share:.0%} of a step to reach the engines", text
    if (share := shares.get("save_checkpoint", 0.0)) > MUCH_OVERHEAD:
        text = "Save less often (trainer.save_freq), or to a faster disk."
        yield "checkpoints", f"Checkpoints take {share:.0%} of a step", text


def _idle(run: Evidence) -> float | None:
    lines = run.gauge(semconv.REPLICA_IDLE.name, semconv.ROLE, semconv.REPLICA)
    values = [
        value
        for (role, _), line in lines.items()
        if role == _ROLLOUT
        for value in line.over(run.tick - _MINUTES, run.tick)
    ]
    return fmean(values) if values else None


def _engines(run: Evidence) -> _Found:
    labels = semconv.ROLE, semconv.REPLICA
    peaks = _most(lambda: dict(run.gauge(semconv.ENGINE_RUNNING_PEAK.name, *labels)), run.tick)
    limits = _most(lambda: dict(run.gauge(semconv.ENGINE_RUNNING_LIMIT.name, *labels)), run.tick)
    used = {who: (peak, limits[who]) for who, peak in peaks.items() if who[0] == _ROLLOUT and limits.get(who)}
    full = _most(lambda: dict(run.gauge(semconv.ENGINE_KV_PEAK.name, *labels)), run.tick)
    preempted = run.increase("vllm:num_preemptions_total", run.tick, _MINUTES, *labels)
    crowded = sorted(who[1] for who, share in full.items() if share > CACHE_FULL and preempted.get(who, 0) > 0)
    if crowded:
        text = (
            "Tokens are computed twice. Lower actor_rollout_ref.rollout.max_num_seqs, raise gpu_memory_utilization, or "
            f"add replicas. Replicas: {', '.join(crowded[:8])}."
        )
        yield "cache_full", f"The KV cache is full, {sum(preempted.values()):.0f} requests were preempted", text
    elif used and all(peak < FEW_RUNNING * limit for peak, limit in used.values()):
        peak, limit = max(used.values())
        text = (
            "The engines could take more at once: a bigger batch, more trajectories of a prompt, or fewer replicas. "
            "If the KV cache is small, lower max_num_seqs."
        )
        yield "few_running", f"Peak running {peak:.0f} of {limit:.0f} allowed", text


def _learning(cursor: Cursor, run: Evidence) -> _Found:
    equal = rules.groups_teach_nothing(run, run.tick, TOO_EQUAL).get(())
    if equal is not None:
        text = (
            "They have no advantage, and teach nothing. Filter groups (algorithm.filter_groups), or choose data that "
            "are neither too easy nor too hard."
        )
        yield "zero_variance", f"In {equal:.0%} of the groups all rewards are equal", text
    found = {one["key"]: one["value"] for one in rows(cursor, _RECENT, _recently(keys=[rules.AT_LIMIT]))}
    if (share := found.get(rules.AT_LIMIT, 0.0)) > AT_LIMIT:
        text = "They are judged half done. Raise data.max_response_length, or punish length."
        yield "at_limit", f"{share:.0%} of the responses end at their limit", text
    for (phase,), gap in rules.rank_straggles(run, run.tick, MUCH_OVERHEAD).items():
        text = (
            "The other ranks wait. Uneven sequences: trainer.balance_batch=True. Always the same rank: its GPU or host."
        )
        yield "straggler", f"The slowest rank costs {gap:.0%} of {phase}", text


def _tail(cursor: Cursor) -> _Found:
    found = row(cursor, _TAIL) or {}
    if not found.get("many") or found["many"] < MANY or found["late"] <= LONG_TAIL * found["middle"]:
        return
    text = (
        "A step lasts as long as its slowest trajectories. Look at the batch for what they wait for; bound tool calls "
        "and turns, or let partial rollouts go on in the next step."
    )
    yield "tail", f"A twentieth of the trajectories take {found['late'] / found['middle']:.1f} times the median", text
