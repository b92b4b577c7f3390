"""Made runs for developing and testing the page: the same at every start, shaped like a GRPO run of verl."""

from __future__ import annotations

import math
import os
import random
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

Answer = dict[str, Any]
Query = dict[str, list[str]]
HOUR = 3_600_000.0
NOW = time.time() * 1000
PHASES = {  # seconds at the start, growth over the run
    "gen": (42.0, 1.6),
    "reward": (3.1, 1.0),
    "old_log_prob": (8.2, 1.3),
    "ref": (7.6, 1.3),
    "adv": (0.4, 1.0),
    "update_actor": (21.0, 1.3),
    "update_weights": (4.2, 1.0),
}


@dataclass(frozen=True)
class Made:
    """What a made run is made of. `age`: hours since its start; `steps`: how many it has logged."""

    id: str
    status: str
    age: float
    steps: int
    total: int | None
    model: str = "Qwen/Qwen3-8B"
    lr: float = 1e-6
    attempts: int = 1
    seed: int = 0


RUNS = [
    Made("grpo-gsm8k-8b-lr1e6-0412", "running", 5.9, 240, 465, seed=1),
    Made("grpo-gsm8k-8b-lr3e6-0411", "running", 7.2, 301, 465, lr=3e-6, attempts=2, seed=2),
    Made("grpo-gsm8k-8b-nan-0411", "failed", 21.0, 121, 465, lr=1e-5, seed=3),
    Made("ppo-math-14b-0410", "finished", 60.0, 465, 465, model="Qwen/Qwen3-14B", seed=4),
    Made("dapo-search-r1-0409", "vanished", 90.0, 12, None, model="Qwen/Qwen3-4B", seed=5),
    Made("one-step", "running", 0.1, 1, 100, seed=6),
    Made("just-started", "running", 0.02, 0, 100, seed=7),
    *(
        Made(f"sweep-{n:03d}", ("finished", "failed", "interrupted")[n % 3], 100 + 3 * n, 40 + n, 300, seed=20 + n)
        for n in range(60)
    ),
]
BY_ID = {made.id: made for made in RUNS}


@cache
def scalars(run: str) -> dict[str, list[float | None]]:
    """Every key's values by step, from step 1; None where a step has none."""
    made = BY_ID[run]
    rng = random.Random(made.seed)  # noqa: S311
    n = made.steps
    keys: dict[str, list[float | None]] = {}

    def curve(key: str, start: float, end: float, noise: float, rate: float = 3.0) -> list[float]:
        values = [end + (start - end) * math.exp(-rate * i / max(1, n)) + rng.gauss(0, noise) for i in range(n)]
        keys[key] = list(values)
        return values

    score = curve("critic/score/mean", 0.18, 0.79 if made.lr < 1e-5 else 0.4, 0.02)
    keys["critic/score/max"] = [1.0] * n
    keys["critic/score/min"] = [0.0 if value < 0.9 else 0.1 for value in score]
    keys["critic/rewards/mean"] = [value * 0.95 for value in score]
    curve("actor/entropy", 0.62, 0.11, 0.01)
    keys["actor/ppo_kl"] = [abs(rng.gauss(0.0008, 0.0006)) + (0.13 if i in (90, 91, 170) else 0) for i in range(n)]
    keys["actor/pg_clipfrac"] = [abs(rng.gauss(0.012, 0.006)) + 0.05 * i / 300 for i in range(n)]
    keys["actor/grad_norm"] = [math.exp(rng.gauss(-1.2, 0.3)) * (18 if i in (60, 171) else 1) for i in range(n)]
    curve("actor/pg_loss", 0.02, -0.01, 0.01)
    keys["actor/lr"] = [made.lr * min(1, (i + 1) / 10) for i in range(n)]
    for family, unit_mean in (("response_length", 410.0), ("prompt_length", 132.0), ("global_seqlen", 51_000.0)):
        mean = curve(f"{family}/mean", unit_mean, unit_mean * 1.9, unit_mean * 0.03)
        keys[f"{family}/max"] = [value * 2.4 + rng.random() * unit_mean for value in mean]
        keys[f"{family}/min"] = [value * 0.2 for value in mean]
    keys["response_length/clip_ratio"] = [max(0.0, 0.002 * i / 10 + rng.gauss(0, 0.004)) for i in range(n)]
    keys["training/rollout_probs_diff_mean"] = [abs(rng.gauss(0.0021, 0.0005)) + 0.000013 * i for i in range(n)]
    keys["training/rollout_actor_probs_pearson_corr"] = [0.9992 - abs(rng.gauss(0, 0.0002)) for _ in range(n)]
    keys["training/global_step"] = [float(i + 1) for i in range(n)]
    keys["perf/throughput"] = [rng.gauss(2350, 60) for _ in range(n)]
    keys["perf/mfu/actor"] = [rng.gauss(0.39, 0.01) for _ in range(n)]
    keys["perf/max_memory_allocated_gb"] = [61.2 * 1024**3 + rng.random() * 1e9 for _ in range(n)]
    for source, best in (("openai/gsm8k", 0.84), ("math-ai/aime24", 0.21)):
        accuracy = curve(f"val-core/{source}/acc/mean@4", best * 0.3, best, 0.01)
        keys[f"val-core/{source}/acc/mean@4"] = [accuracy[i] if (i + 1) % 20 == 0 else None for i in range(n)]
    for phase in PHASES:
        keys[f"timing_s/{phase}"] = [phase_seconds(made, phase, i) for i in range(n)]
    for part in range(250 if made.seed == 1 else 10):
        curve(f"rewards/part_{part:03d}/mean", rng.random(), rng.random(), 0.03)
    if made.status == "failed":
        for key in ("actor/grad_norm", "actor/pg_loss", "actor/ppo_kl"):
            keys[key][-3:] = [math.nan, math.nan, math.inf][: min(3, n)]
    gap = slice(100, 108)  # nothing arrived: a gap, not zeros
    for key in ("actor/entropy", "perf/throughput"):
        keys[key][gap] = [None] * len(keys[key][gap])
    return keys


def phase_seconds(made: Made, phase: str, index: int) -> float | None:
    """Seconds of a phase at a step (from 0)."""
    base, growth = PHASES[phase]
    rng = random.Random(f"{made.seed}/{phase}/{index}")  # noqa: S311
    wave = 1 + (0.5 if phase == "gen" and index % 37 == 20 else 0)
    return base * (1 + (growth - 1) * index / max(1, made.steps)) * wave * rng.uniform(0.93, 1.07)


def unit(key: str) -> str:
    """The unit that the backend tells for a key."""
    if key.startswith("timing_s/"):
        return "s"
    if key.startswith("perf/max_memory"):
        return "By"
    if key.startswith(("response_length/clip", "actor/pg_clipfrac", "perf/mfu")):
        return "1"
    if key.startswith(("response_length", "prompt_length", "global_seqlen")):
        return "{token}"
    return {"perf/throughput": "{token}/s", "actor/entropy": "{nat}", "actor/ppo_kl": "{nat}"}.get(key, "")


def started(made: Made, now: float) -> float:
    """Ms since the epoch, by the time of the server's start."""
    return now - made.age * HOUR


def step_times(made: Made, now: float) -> list[tuple[float, float]]:
    """Start and end of each step in ms."""
    begin = started(made, now) + 90_000
    length = (made.age * HOUR - 120_000) / max(1, made.steps)
    return [(begin + i * length, begin + (i + 0.98) * length) for i in range(made.steps)]


def rev(made: Made) -> int:
    """Grows with MOCK_LIVE, so that the page reads again."""
    live = os.environ.get("MOCK_LIVE") and made.status == "running"
    return made.steps + 1 + (int(time.time() * 1000 - NOW) // 2000 if live else 0)
