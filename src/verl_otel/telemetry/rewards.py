"""Reward calls: below the trajectory they are for, or below the trainer's phase where it asks for all at once."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.telemetry import scope, whoami
from verl_otel.telemetry.instruments import count, measure, produce
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.slot import Slot

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

MOST_NAMES: Final = 64
"""Parts of rewards that a process tells apart in metrics."""
SCORE: Final = "score"

MOST_OF_A_PHASE: Final = 256
"""Spans of rewards that a process shows below one phase of the trainer, which asks for all of a batch at once."""

_names: set[str] = set()
_last: dict[str, tuple[float, float, float]] = {}
"""Mean, least and most of each part of the rewards that the last step trained on."""
_shown: tuple[int, int] = (0, 0)
"""A trace that is no trajectory's, and how many spans of it were shown."""


@dataclass(frozen=True)
class Sample:
    """What is rewarded, and by what; None where it isn't said."""

    function: str
    uid: str | None = None
    session: int | None = None
    source: str | None = None


@dataclass(frozen=True)
class Reward:
    """`parts`: numeric fields beside the score."""

    score: float | None
    parts: Mapping[str, float] = field(default_factory=dict)


class RewardCall:
    """A call from its start to `stop` or `fail`."""

    def __init__(self, sample: Sample) -> None:
        here = scope.current()
        whoami.is_("reward")
        self._labels: dict[str, Any] = {semconv.REWARD_FUNCTION: sample.function, semconv.VALIDATION: here.validation}
        self.requests = 0
        self.recording = Recording(
            semconv.SPAN_REWARD,
            {
                semconv.REWARD_FUNCTION: sample.function,
                semconv.GEN_AI_SCORE_NAME: sample.function,
                semconv.SAMPLE_UID: sample.uid,
                semconv.ROLLOUT_SESSION: sample.session,
                semconv.DATA_SOURCE: sample.source,
                semconv.STEP: here.step,
            },
            scope=here,
            parent=_slot.holding(self),
            duration=(semconv.REWARD_DURATION, self._labels),
            shown_open={semconv.REWARD_FUNCTION: sample.function},
            sampled=_is_shown(here),
            private=True,
            # verl may go on without it, and where it doesn't, the phase it was for has failed too.
            decisive=False,
        )

    def requested(self) -> None:
        """It made an HTTP request."""
        self.requests += 1

    def given(self, reward: Reward) -> None:
        """The reward is known."""
        self.recording.set(
            {
                semconv.GEN_AI_SCORE: reward.score,
                **{semconv.REWARD_PART + name: value for name, value in reward.parts.items()},
            }
        )
        with guard("measuring a reward"):
            for name, value in {SCORE: reward.score, **reward.parts}.items():
                if value is not None and math.isfinite(value) and _known(name):
                    labels = {semconv.REWARD_NAME: name, semconv.VALIDATION: scope.current().validation}
                    measure(semconv.REWARD_VALUE, value, labels, self.recording.span)

    def stop(self) -> None:
        """The reward is given."""
        self._count_requests()
        self.recording.stop()

    def fail(self, error: BaseException) -> None:
        """It raised: verl goes on without this trajectory, or ends, depending on the trainer."""
        self._count_requests()
        kind = type(error).__name__
        self._labels[semconv.ERROR_TYPE] = kind  # of its duration
        self.recording.set({semconv.ERROR_TYPE: kind})
        self.recording.fail(error)

    def _count_requests(self) -> None:
        if self.requests:
            self.recording.set({semconv.REWARD_REQUESTS: self.requests})


def repeated(times: int) -> None:
    """An HTTP request to a reward model was made so many times more than once."""
    if times > 0:
        with guard("counting repeated requests"):
            count(semconv.REWARD_REPEATS, times, {})


_slot = Slot(RewardCall)
current = _slot.current
"""The reward call that the code at hand belongs to; else None."""


def trained(parts: Iterable[Mapping[str, float]]) -> None:
    """A step trains on trajectories with these rewards: for each, its score and the numeric fields beside it."""
    found: dict[str, list[float]] = {}
    for name, value in (item for one in parts for item in one.items()):
        if math.isfinite(value) and _known(name):
            found.setdefault(name, []).append(value)
    _last.clear()
    _last.update({name: (sum(values) / len(values), min(values), max(values)) for name, values in found.items()})


def produced(time: int) -> "Iterable[Metric]":
    """Of the last step's batch."""
    from verl_otel.delivery.points import gauge

    if _last:
        points = [
            ({semconv.REWARD_NAME: name, semconv.STATISTIC: statistic}, value)
            for name, values in dict(_last).items()
            for statistic, value in zip(("mean", "min", "max"), values, strict=True)
        ]
        yield gauge(semconv.REWARD_STEP, points, time)


produce(produced)


def numeric(fields: Mapping[Any, Any]) -> dict[str, float]:
    """Those of the fields that are numbers."""
    found: dict[str, Any] = {str(name): value for name, value in fields.items()}
    return {name: float(value) for name, value in found.items() if is_number(value)}


def is_number(value: Any) -> bool:
    """Whether it is a number or bool of Python's, NumPy's or torch's, alone."""
    if isinstance(value, int | float):
        return True
    kind = getattr(getattr(value, "dtype", None), "kind", None)  # torch has dtypes without kinds, and no texts
    return hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 and kind in (None, *"biuf")


def _is_shown(here: scope.Scope) -> bool:
    global _shown
    if here.phase is None:  # below a trajectory
        return True
    trace_id = trace.get_current_span().get_span_context().trace_id
    before = _shown[1] if _shown[0] == trace_id else 0
    _shown = (trace_id, before + 1)
    return before < MOST_OF_A_PHASE


def _known(name: str) -> bool:
    if name not in _names and len(_names) < MOST_NAMES:
        _names.add(name)
    return name in _names


def reset() -> None:
    """Forget the names seen, between tests."""
    _names.clear()
    _last.clear()
