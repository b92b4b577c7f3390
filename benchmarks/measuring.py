"""Numbers from noisy machines: pairs, the median of their ratios with a 95 % interval, and what it says of a budget.

Standard library only: the sides that run in another venv import it too.
"""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final

_ROUNDS: Final = 2000
_SEED: Final = 20240  # the same numbers give the same interval


class Verdict(str, Enum):
    """What an interval says of a budget."""

    WITHIN = "within"
    OVER = "over"
    INCONCLUSIVE = "inconclusive"
    NONE = ""


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> "Interval":
        """Of one measurement, which has no spread."""
        return cls(value, value, value)


@dataclass(frozen=True)
class Row:
    """One line of the table. `note` says both sides in absolute numbers, and where it needs saying, what was done."""

    benchmark: str
    what: str
    measured: Interval
    unit: str = "x"
    budget: float | None = None
    note: str = ""
    verdict: Verdict = Verdict.NONE

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "verdict": self.verdict.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Row":
        """What `to_json` gave."""
        return cls(**{**data, "measured": Interval(**data["measured"]), "verdict": Verdict(data["verdict"])})


def bootstrap(draw: Callable[[random.Random], float], value: float) -> Interval:
    """The 95 % interval of a statistic: `draw` computes it from data drawn anew, `value` is that of the data itself."""
    dice = random.Random(_SEED)  # noqa: S311 - nothing secret
    drawn = sorted(draw(dice) for _ in range(_ROUNDS))
    return Interval(value, drawn[int(0.025 * _ROUNDS)], drawn[int(0.975 * _ROUNDS) - 1])


def median(values: Sequence[float]) -> Interval:
    """The median of independent values."""
    return bootstrap(
        lambda dice: statistics.median(dice.choices(values, k=len(values))),
        statistics.median(values),
    )


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """The median of the ratios of pairs, each measured side by side, so that what disturbs one disturbs the other."""
    return median([a / b for a, b in zip(ours, theirs, strict=True)])


def alternate(
    pairs: int, ours: Callable[[], float], theirs: Callable[[], float], tell: Callable[[int], None]
) -> tuple[list[float], list[float]]:
    """Measure both sides in pairs, neither always first; `tell` is told the pairs done."""
    found: tuple[list[float], list[float]] = ([], [])
    sides = ((found[0], ours), (found[1], theirs))
    for pair in range(pairs):
        tell(pair)
        for values, side in sides if pair % 2 else reversed(sides):
            values.append(side())
    return found


def judge(measured: Interval, budget: float) -> Verdict:
    """Within or over the budget, if the whole interval is."""
    if measured.high <= budget:
        return Verdict.WITHIN
    return Verdict.OVER if measured.low > budget else Verdict.INCONCLUSIVE


def compare(
    benchmark: str,
    what: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    budget: float | None = None,
    note: str = "",
) -> Row:
    """The row of a paired comparison of seconds."""
    ratio = paired(ours, theirs)
    both = f"{seconds(statistics.median(ours))} against {seconds(statistics.median(theirs))}"
    verdict = judge(ratio, budget) if budget is not None else Verdict.NONE
    return Row(benchmark, what, ratio, "x", budget, f"{both}; {note}" if note else both, verdict)


def seconds(value: float) -> str:
    """A time for people."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
