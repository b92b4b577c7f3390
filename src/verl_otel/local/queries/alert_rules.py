"""What each alert asks of a run's learning and progress: at a tick, for whom it is so, and by which value.

As `stack/prometheus/rules/alerts.yaml` has it, with the same limits, which come as the last arguments.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, median, pstdev
from typing import Final

from verl_otel import semconv
from verl_otel.local.queries.evidence import HOUR, MINUTE, STALE, TICK, Evidence, Found, Labels, Line
from verl_otel.local.queries.histograms import quantile
from verl_otel.local.queries.reading import SECOND

_QUARTER: Final = 15 * MINUTE
_ROLLOUT: Final = "rollout"
_ALL: Final[Labels] = ()

SCORE: Final = "critic/score/mean"
KL: Final = "actor/ppo_kl"
GRADIENT: Final = "actor/grad_norm"
ENTROPY: Final = ("actor/entropy", "actor/entropy_loss")
DISAGREEMENT: Final = "training/rollout_probs_diff_mean"
CORRELATION: Final = "training/rollout_actor_probs_pearson_corr"
CLIPPED: Final = "actor/pg_clipfrac"
AT_LIMIT: Final = "response_length/clip_ratio"
TIMING: Final = "timing_s/"


def _if(value: float | None, holds: bool) -> Found:
    return {_ALL: value} if holds and value is not None else {}


def above(run: Evidence, tick: int, limit: float, *, key: str) -> Found:
    """The scalar is above the limit."""
    value = run.scalar(key).at(tick)
    return _if(value, value is not None and value > limit)


def correlation_falls(run: Evidence, tick: int, limit: float, slope: float) -> Found:
    """Low, and by the last half hour's line lower still."""
    line = run.scalar(CORRELATION)
    value = line.at(tick)
    falling = _slope(line.over(tick - HOUR // 2, tick)) < slope
    return _if(value, value is not None and value < limit and falling)


def _slope(values: Sequence[float]) -> float:
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return 0.0
    middle, mean = (len(values) - 1) / 2, fmean(values)
    return sum((place - middle) * (value - mean) for place, value in enumerate(values))


def _hour_before(line: Line, tick: int) -> tuple[float, float] | None:
    """Mean and standard deviation of the hour before the last quarter."""
    values = line.over(tick - _QUARTER - HOUR, tick - _QUARTER)
    if not values or not all(map(math.isfinite, values)):
        return None
    return fmean(values), pstdev(values)


def reward_collapsed(run: Evidence, tick: int, deviations: float, least: float) -> Found:
    """Far below the hour before."""
    value, usual = run.scalar(SCORE).at(tick), _hour_before(run.scalar(SCORE), tick)
    if value is None or usual is None:
        return {}
    return _if(value, value < usual[0] - deviations * usual[1] and usual[1] > least)


def kl_blows_up(run: Evidence, tick: int, deviations: float, least: float) -> Found:
    """Far above the hour before."""
    value, usual = run.scalar(KL).at(tick), _hour_before(run.scalar(KL), tick)
    if value is None or usual is None:
        return {}
    return _if(value, value > usual[0] + deviations * usual[1] and value > least)


def entropy_collapsed(run: Evidence, tick: int, share: float) -> Found:
    """A small share of the most in six hours."""
    line = next((line for key in ENTROPY if (line := run.scalar(key)).at(tick) is not None), None)
    if line is None:
        return {}
    value, most = line.at(tick), max(line.over(tick - 6 * HOUR, tick), default=math.nan)
    return _if(value, value is not None and value < share * most)


def gradient_spikes(run: Evidence, tick: int, times: float) -> Found:
    """Many times its median of an hour."""
    line = run.scalar(GRADIENT)
    value, values = line.at(tick), line.over(tick - HOUR, tick)
    return _if(value, value is not None and bool(values) and value > times * median(values))


def not_finite(run: Evidence, tick: int, limit: float) -> Found:
    """By key: NaN or infinite in the last ten minutes."""
    found = run.increase(semconv.METRIC_NONFINITE.name, tick, 10 * MINUTE, semconv.METRIC_KEY)
    return {key: value for key, value in found.items() if value > limit}


def groups_teach_nothing(run: Evidence, tick: int, limit: float) -> Found:
    """All right and all wrong together."""
    lines = run.gauge(semconv.GROUP_ZERO_VARIANCE.name, semconv.GROUP_SIGNAL).values()
    values = [value for line in lines if (value := line.at(tick)) is not None]
    return _if(sum(values), bool(values) and sum(values) > limit)


def stale(run: Evidence, tick: int, share: float, limit: float) -> Found:
    """The versions that the latest trajectories are late, by a quarter of an hour."""
    counts = run.counts(semconv.ROLLOUT_STALENESS.name)
    value = quantile(counts.bounds, counts.within(range(tick - _QUARTER + 1, tick + 1)), share)
    return _if(value, value is not None and value > limit)


def phase_stuck(run: Evidence, tick: int, seconds: float, times: float) -> Found:
    """Open for long, and for many times what it took last."""
    found: Found = {}
    for (phase,), line in run.gauge(semconv.OPEN_DURATION.name, semconv.PHASE).items():
        value, usual = line.at(tick), run.scalar(TIMING + phase).at(tick)
        if phase in ("", "step") or value is None or usual is None:
            continue
        if value > seconds and value > times * usual:
            found[(phase,)] = value
    return found


def rank_straggles(run: Evidence, tick: int, limit: float) -> Found:
    """The slowest rank's gap as a share of its phase."""
    found: Found = {}
    for (phase,), line in run.gauge(semconv.STRAGGLER_GAP.name, semconv.PHASE).items():
        gap, whole = line.at(tick), run.scalar(TIMING + phase).at(tick)
        if gap is not None and whole and gap / whole > limit:
            found[(phase,)] = gap / whole
    return found


def _replicas(run: Evidence, metric: str) -> Mapping[Labels, Line]:
    """Of the rollouts'."""
    found = run.gauge(metric, semconv.ROLE, semconv.REPLICA)
    return {(replica,): line for (role, replica), line in found.items() if role == _ROLLOUT}


def replica_idle(run: Evidence, tick: int, idle: float, busy: float) -> Found:
    """One idles while another works."""
    values = {who: line.at(tick) for who, line in _replicas(run, semconv.REPLICA_IDLE.name).items()}
    known = {who: value for who, value in values.items() if value is not None}
    if not any(value < busy for value in known.values()):
        return {}
    return {who: value for who, value in known.items() if value > idle}


def replica_gone(run: Evidence, tick: int) -> Found:
    """There were more half an hour ago; a run that ended has none, as it should."""
    lines = _replicas(run, semconv.REPLICA_IDLE.name).values()
    there = [line for line in lines if line.at(tick) is not None]
    before = [line for line in lines if line.over(tick - HOUR // 2, tick)]
    return _if(float(len(before) - len(there)), bool(there) and len(before) > len(there))


def cache_full(run: Evidence, tick: int, limit: float, preemptions: float) -> Found:
    """Full, while requests are preempted."""
    preempted = run.increase("vllm:num_preemptions_total", tick, 5 * MINUTE, semconv.ROLE, semconv.REPLICA)
    found: Found = {}
    for (role, replica), line in run.gauge(semconv.ENGINE_KV_PEAK.name, semconv.ROLE, semconv.REPLICA).items():
        value = line.at(tick)
        if value is not None and value > limit and preempted.get((role, replica), 0) > preemptions:
            found[(replica,)] = value
    return found


def weight_sync_slow(run: Evidence, tick: int, times: float, middle: float, seconds: float) -> Found:
    """Slower than usual, and slow."""
    line = run.scalar(TIMING + "update_weights")
    value, values = line.at(tick), line.over(tick - 6 * HOUR, tick)
    usual = sorted(values)[int(middle * (len(values) - 1))] if values else math.nan
    return _if(value, value is not None and value > times * usual and value > seconds)


def samples_lost(run: Evidence, tick: int, limit: float) -> Found:
    """Asked for, and not trained on."""
    value = sum(run.increase(semconv.ROLLOUT_MISSING.name, tick, _QUARTER).values())
    return _if(value, value > limit)


def run_vanished(run: Evidence, tick: int) -> Found:
    """Nothing was told for as long as Prometheus waits, and no end; asked by the clock."""
    silent = tick - run.tick
    return _if(silent * TICK / SECOND, not run.ended and silent > STALE)
