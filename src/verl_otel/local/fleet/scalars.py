"""What the made trainer logs at each step: curves that look like a run that learns, with its troubles."""

import math
from collections.abc import Iterator
from random import Random
from typing import Final

from verl_otel import semconv
from verl_otel.instrumentors import metric_keys
from verl_otel.local.fleet.cast import TRAINER, Fleet
from verl_otel.local.fleet.messages import Batch, Request
from verl_otel.local.fleet.steps import Step

_STEPS_OF_A_REQUEST: Final = 100
_NAN_AT: Final = 611
"""Step that logs a NaN."""
_MISMATCH_FROM: Final = 720
"""From this step on engine and trainer drift apart for a while."""


def of_steps(fleet: Fleet, batch: Batch, steps: list[Step]) -> Iterator[Request]:
    """A snapshot for each step, at its end."""
    for place, step in enumerate(steps, 1):
        batch.point(TRAINER, (semconv.STEP_SNAPSHOT.name, ""), step.end, step.number, {})
        for key, value in values(fleet, step).items():
            named = metric_keys.describe(key)
            attributes = {semconv.METRIC_KEY: key, **dict(named.attributes)}
            batch.point(TRAINER, (named.name, named.unit), step.end, value * named.scale, attributes)
        if place % _STEPS_OF_A_REQUEST == 0 or place == len(steps):
            yield from batch.take()


def values(fleet: Fleet, step: Step) -> dict[str, float]:
    """By verl's key."""
    number = step.number
    chance = fleet.chance("scalars", number)
    found: dict[str, float] = {}
    score = 0.12 + 0.62 * (1 - math.exp(-number / 320)) + _wobble(chance, 0.025)
    if 350 <= number < 372:  # it forgets, and comes back
        score -= 0.22 * math.sin((number - 350) / 22 * math.pi)
    length = 900 + 1500 * (1 - math.exp(-number / 500)) + _wobble(chance, 60)
    for family, mean, spread in (("critic/score", score, 0.4), ("critic/rewards", score, 0.4)):
        found |= {f"{family}/mean": mean, f"{family}/max": 1.0, f"{family}/min": max(0.0, mean - spread)}
    found |= {
        "critic/advantages/mean": _wobble(chance, 0.004),
        "critic/advantages/max": 1.9 + _wobble(chance, 0.1),
        "critic/advantages/min": -2.1 + _wobble(chance, 0.1),
        "actor/entropy": 0.9 * math.exp(-number / 700) + 0.12 + _wobble(chance, 0.01),
        "actor/grad_norm": 0.35 + abs(_wobble(chance, 0.06)) + (4.2 if number in (204, 466) else 0.0),
        "actor/ppo_kl": 0.0006 + abs(_wobble(chance, 0.0003)),
        "actor/pg_loss": _wobble(chance, 0.02),
        "actor/pg_clipfrac": 0.004 + abs(_wobble(chance, 0.002)),
        "actor/kl_loss": math.nan if number == _NAN_AT else 0.002 + 0.00004 * number + abs(_wobble(chance, 0.0005)),
        "actor/lr": 1e-6 * min(1.0, number / 20),
        "actor/perf/max_memory_allocated_gb": 61.0 + _wobble(chance, 0.4),
        "response_length/mean": length,
        "response_length/max": 8192.0,
        "response_length/min": 24.0 + chance.randint(0, 40),
        "response_length/clip_ratio": max(0.0, 0.01 + number / 30_000 + _wobble(chance, 0.004)),
        "prompt_length/mean": 610 + _wobble(chance, 20),
        "num_turns/mean": 3.4 + _wobble(chance, 0.2),
        "training/rollout_probs_diff_mean": _mismatch(number) + abs(_wobble(chance, 0.0004)),
        "training/rollout_probs_diff_max": 0.3 + abs(_wobble(chance, 0.1)),
        "training/rollout_actor_probs_pearson_corr": 0.9995 - 0.3 * _mismatch(number) - abs(_wobble(chance, 0.0002)),
        "training/global_step": float(number),
        "training/epoch": float(number // 400),
        "training/off_policy/trajectory_staleness/mean": 0.6 + _wobble(chance, 0.05),
        "perf/mfu/actor": 0.41 + _wobble(chance, 0.01),
    }
    return {**found, **_times(fleet, step, length), **_validation(number, chance)}


def _times(fleet: Fleet, step: Step, length: float) -> dict[str, float]:
    took = (step.end - step.start) / 1e9
    # As many as the whole fleet would make of it; its trajectories here are a few of them.
    tokens = fleet.ranks * 1900 * took * (length + 610) / 3000
    found = {f"timing_s/{one.name}": (one.end - one.start) / 1e9 for one in step.phases}
    return found | {
        "timing_s/step": took,
        "perf/time_per_step": took,
        "perf/total_num_tokens": tokens,
        "perf/throughput": tokens / took / fleet.ranks,
    }


def _validation(number: int, chance: Random) -> dict[str, float]:
    if number % 10:
        return {}
    accuracy = 0.1 + 0.55 * (1 - math.exp(-number / 360)) + _wobble(chance, 0.012)
    return {
        "val-core/made/puzzles/acc/mean@8": accuracy,
        "val-aux/made/puzzles/acc/best@8/mean": min(0.97, accuracy + 0.2),
        "val-aux/made/puzzles/reward/mean@8": accuracy * 0.97,
    }


def _mismatch(number: int) -> float:
    grown = math.exp(-(((number - _MISMATCH_FROM - 60) / 40) ** 2))
    return 0.0021 + 0.0065 * grown


def _wobble(chance: Random, size: float) -> float:
    return chance.gauss(0, size)
