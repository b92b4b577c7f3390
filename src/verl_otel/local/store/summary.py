"""What the list of runs shows of each: kept with its data, and beside it for whoever lists many."""

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

from verl_otel import semconv
from verl_otel.local.store.attributes import BIGGEST, int_or_none, text_or_none

if TYPE_CHECKING:
    from verl_otel.local.store.rows import RunEvent

SILENCE: Final = 90.0
"""Seconds without data after which a run that didn't end has vanished."""
REWARDS: Final = ("critic/score/mean", "critic/rewards/mean")
"""Keys of the sparkline, the first that is logged."""
DEMO: Final = "verl.run.demo"
"""Of a resource whose data is made up."""
RUNNING: Final = "running"
_MOST_POINTS: Final = 60
_MOST_KEPT: Final = 4 * _MOST_POINTS
_OUTCOMES: Final = frozenset({"finished", "failed", "interrupted"})
_DESCRIBED: Final = {
    "project": semconv.RUN_PROJECT,
    "experiment": semconv.RUN_EXPERIMENT,
    "algorithm": semconv.RUN_ALGORITHM,
    "model": semconv.RUN_MODEL,
    "engine": semconv.RUN_ENGINE,
    "trainer": semconv.RUN_TRAINER,
}
_TOTAL: Final = re.compile(r'"total_training_steps": ?(\d+)')


@dataclass
class Summary:
    """Of a run. Times in ns since the epoch; `heard`: when something last arrived, by this machine's clock."""

    id: str
    project: str | None = None
    experiment: str | None = None
    algorithm: str | None = None
    model: str | None = None
    engine: str | None = None
    trainer: str | None = None
    host: str | None = None
    status: str = RUNNING
    step: int | None = None
    total_steps: int | None = None
    first: int = BIGGEST
    last: int = 0
    started: int | None = None
    ended: int | None = None
    heard: int = 0
    attempt: int = 1
    ended_attempt: int = 0
    demo: bool = False
    bytes: int = 0
    rev: int = 0
    stride: int = 1
    rewards: dict[str, dict[int, float]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, text: str) -> "Summary":
        """What `to_json` made. Raises `ValueError` if it is something else."""
        told = json.loads(text)
        known = {one.name for one in fields(cls)}
        try:
            found = cls(**{key: value for key, value in told.items() if key in known})
        except TypeError as error:
            raise ValueError(str(error)) from error
        found.rewards = {
            key: {int(step): value for step, value in values.items()} for key, values in found.rewards.items()
        }
        return found

    def to_json(self) -> str:
        """All of it."""
        return json.dumps(asdict(self))

    def saw(self, first: int, last: int) -> None:
        """There is data of these times; clocks that are ahead don't count."""
        self.heard = time.time_ns()
        self.first, self.last = min(self.first, first), max(self.last, min(last, self.heard))

    def described(self, attributes: Mapping[str, Any], host: str | None) -> None:
        """The driver says what the run is."""
        for name, attribute in _DESCRIBED.items():
            if (value := text_or_none(attributes.get(attribute))) is not None:
                setattr(self, name, value)
        self.host = host or self.host
        if isinstance(config := attributes.get(semconv.RUN_CONFIG), str):
            self.total_steps = _total_steps(config) or self.total_steps

    def attempted(self, attempt: int | None) -> None:
        """There is data of that attempt; one that is newer than the end makes it run again."""
        if attempt is not None and attempt > self.attempt:
            self.attempt = attempt
            if self.ended_attempt < attempt:
                self.status, self.ended = RUNNING, None

    def told(self, event: "RunEvent") -> None:
        """The run started, resumed or ended."""
        self.described(event.attributes, event.process.host)
        if event.name == semconv.EVENT_RUN_END:
            self.end(event.process.attempt, event.attributes.get(semconv.RUN_OUTCOME), event.time)
        elif event.name == semconv.EVENT_RUN_START:
            self.started = min(self.started or event.time, event.time)
            if self.ended is not None and event.time > self.ended:  # another program under the same name
                self.status, self.ended = RUNNING, None

    def end(self, attempt: int | None, outcome: Any, at: int) -> None:
        """An attempt ended; one that another followed is not the run's end."""
        if outcome in _OUTCOMES and (attempt or 1) >= self.attempt:
            self.status, self.ended, self.ended_attempt = str(outcome), at, attempt or 1

    def logged(self, step: int, key: str, value: float) -> None:
        """A scalar of a step."""
        self.step = step if self.step is None else max(self.step, step)
        if key in REWARDS and math.isfinite(value):
            self._keep(self.rewards.setdefault(key, {}), step, value)

    def _keep(self, points: dict[int, float], step: int, value: float) -> None:
        """Every step that the stride divides, and the last."""
        last = max(points, default=step)
        if last % self.stride and step > last:
            del points[last]
        points[step] = value
        while len(points) > _MOST_KEPT:
            self.stride *= 2
            last = max(points)
            for one in [one for one in points if one % self.stride and one != last]:
                del points[one]

    def shown(self, now: float) -> dict[str, Any]:
        """As the API has it; `now`: seconds since the epoch."""
        silent = self.status == RUNNING and now - self.heard / 1e9 > SILENCE
        first = self.started if self.started is not None else self.first
        return {
            "id": self.id,
            "project": self.project,
            "experiment": self.experiment,
            "status": "vanished" if silent else self.status,
            "step": self.step,
            "total_steps": self.total_steps,
            "started": first / 1e6 if first != BIGGEST else self.heard / 1e6,
            "updated": (self.last or self.heard) / 1e6,
            "ended": self.ended and self.ended / 1e6,
            "host": self.host,
            "attempts": self.attempt,
            "algorithm": self.algorithm,
            "model": self.model,
            "engine": self.engine,
            "trainer": self.trainer,
            "reward": self._sparkline(),
            "bytes": self.bytes,
            "demo": self.demo,
            "rev": self.rev,
        }

    def _sparkline(self) -> dict[str, Any] | None:
        key = next((one for one in REWARDS if one in self.rewards), None)
        if key is None:
            return None
        points = sorted(self.rewards[key].items())
        if len(points) > _MOST_POINTS:
            last = len(points) - 1
            points = [points[round(place * last / (_MOST_POINTS - 1))] for place in range(_MOST_POINTS)]
        return {"key": key, "points": [list(one) for one in points]}


def _total_steps(config: str) -> int | None:
    """From the configuration, which may be cut."""
    try:
        found = json.loads(config)
        places = (found["trainer"], found.get("actor_rollout_ref", {}).get("actor", {}).get("optim", {}))
        steps = [int_or_none(one.get("total_training_steps")) for one in places]
    except (ValueError, TypeError, AttributeError, KeyError):
        steps = [int(one) for one in _TOTAL.findall(config) if len(one) < 10]
    return max((one for one in steps if one is not None and one > 0), default=None)
