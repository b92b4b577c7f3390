"""The times of a run's phases, from verl's own file log, and their ratios over pairs of runs."""

import json
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.measuring import Interval, bootstrap

Steps = Mapping[int, Mapping[str, float]]
"""Seconds by step and phase."""

POLLED: Final = ("gen", "testing")
"""Phases that wait in verl's poll."""

_TIMING: Final = "timing_s/"
_WHOLE: Final = "step"
FIRST: Final = 2
"""The first step is left out: it compiles, allocates and fills caches, on both sides."""


def read(log: Path) -> Steps:
    """Phases of each step from `FIRST` on; what other processes timed (`agent_loop/...`) isn't one."""
    found: dict[int, dict[str, float]] = {}
    for line in map(json.loads, log.read_text().splitlines()):
        if line["step"] >= FIRST:
            timed = {key.removeprefix(_TIMING): value for key, value in line["data"].items() if key.startswith(_TIMING)}
            phases = {name: value for name, value in timed.items() if "/" not in name and value}
            found.setdefault(line["step"], {}).update(phases)
    return found


def phases(runs: Sequence[Steps]) -> list[str]:
    """Names of the phases of these runs, the longest first."""
    total: dict[str, float] = {}
    for run in runs:
        for step in run.values():
            for name, value in step.items():
                total[name] = total.get(name, 0.0) + value
    return sorted(total, key=lambda name: -total[name])


def one(name: str) -> Callable[[Mapping[str, float]], float]:
    """The time of one phase in a step; 0 if it wasn't there."""
    return lambda step: step.get(name, 0.0)


def but_polled(step: Mapping[str, float]) -> float:
    """The time of all phases that don't wait in verl's poll."""
    return sum(value for name, value in step.items() if name not in (*POLLED, _WHOLE))


def log_ratios(pairs: Sequence[tuple[Steps, Steps]], time: Callable[[Mapping[str, float]], float]) -> list[list[float]]:
    """For each pair (with us, without), the logarithms of the ratios of its steps."""
    found = []
    for ours, theirs in pairs:
        steps = [(time(ours[step]), time(theirs[step])) for step in sorted(ours.keys() & theirs.keys())]
        if ratios := [math.log(a / b) for a, b in steps if a and b]:
            found.append(ratios)
    return found


def ratio(logarithms: Sequence[Sequence[float]]) -> Interval:
    """The geometric mean over steps and pairs, and its 95 % interval.

    Pairs are drawn anew and then the steps of each: the steps of one run share its machine, its seeds and its luck.
    """

    def draw(dice: random.Random) -> float:
        pairs = dice.choices(logarithms, k=len(logarithms))
        return math.exp(statistics.fmean(statistics.fmean(dice.choices(pair, k=len(pair))) for pair in pairs))

    return bootstrap(draw, math.exp(statistics.fmean(statistics.fmean(pair) for pair in logarithms)))
