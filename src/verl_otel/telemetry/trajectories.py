"""Trajectories: a trace for each session of an agent loop, linked to what dispatched it.

What happens in a trajectory (model calls, tools, rewards) finds it in the OpenTelemetry context, in its own process; in
others the trace alone is carried.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.telemetry import content, sampling, scope, whoami
from verl_otel.telemetry.instruments import count, measure, produce
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.slot import Slot

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

MOST_PARTS: Final = 32
"""Numeric fields beside a reward that a trajectory shows."""
MOST_CALLS: Final = 1000
"""Model and tool calls that a trajectory shows, of up to 3 kB each: Tempo ends a trace at about 5 MB."""
MOST_FAILED: Final = 100
"""Failed trajectories that were not sampled, of which a process shows the root all the same."""

FINISHED: Final = "finished"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

CANCELLATIONS: Final = ("CancelledError", "GeneratorExit")
"""What work ends in that someone no longer wants."""

AGENT: Final = "agent"
BALANCER: Final = "balancer"
MODEL: Final = "model"
TOOL: Final = "tool"
REWARD: Final = "reward"


Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class Session:
    """One session of an agent loop; None where the loop doesn't say. `uid`: of its prompt, `index`: in its data set."""

    agent: str
    uid: str | None = None
    session: int | None = None
    step: int | None = None
    index: int | None = None
    validation: bool = False


@dataclass(frozen=True)
class Result:
    """What a session gave. Lengths in tokens; `generated`: those of the response that the model made.

    `parts`: numeric fields beside the reward. `oldest`, `newest`: versions of the weights it was made with.
    """

    outputs: int
    turns: int
    prompt: int
    response: int
    generated: int
    reward: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    oldest: int | None = None
    newest: int | None = None


class Trajectory:
    """An observed session, from its start to `stop` or `fail`."""

    def __init__(self, session: Session, said: Sequence[tuple[str, str]] = (), decode: Decode | None = None) -> None:
        """Where content is captured, `said`: (role, text) of the prompt's messages, `decode`: tokens into text."""
        here = scope.current()
        whoami.is_("agent_loop")
        self.session = session
        self.step = here.step if session.step is None else session.step
        self.validation = session.validation or here.validation
        self.waits: list[str] = []
        self.model_calls = self.tool_calls = self.resumed = 0
        self.aborted = False
        self.decode = decode
        self.stop_reason: str | None = None
        self.replica: Any = None
        self.room = content.Room()
        self.result: Result | None = None
        self._sampled = sampling.keeps(self.step, session.uid, session.session)
        self._link = scope.root()
        self._epoch = here.epoch
        self._started = time_ns()
        self.recording = self._record(sampled=self._sampled)
        if said:
            content.keep(self.recording.span, {semconv.GEN_AI_INPUT_MESSAGES: content.messages(said)}, self.room)
        with guard("counting a trajectory"):
            count(semconv.ROLLOUT_STARTED, 1, self._labels)
            if not self._sampled:
                count(semconv.ROLLOUT_UNSAMPLED, 1, self._labels)
        _running[id(self)] = self

    @property
    def waiting_for(self) -> str:
        """What it waits for now: one of the words above."""
        return self.waits[-1] if self.waits else AGENT

    @property
    def has_room(self) -> bool:
        """Whether it shows another call."""
        return self.model_calls + self.tool_calls <= MOST_CALLS

    @property
    def _labels(self) -> dict[str, Any]:
        return {semconv.VALIDATION: self.validation}

    def _record(self, *, sampled: bool, more: Mapping[str, Any] | None = None) -> Recording:
        session = self.session
        return Recording(
            f"{semconv.SPAN_AGENT} {session.agent}",
            {
                semconv.GEN_AI_OPERATION_NAME: semconv.SPAN_AGENT,
                semconv.GEN_AI_AGENT_NAME: session.agent,
                semconv.SAMPLE_UID: session.uid,
                semconv.SAMPLE_INDEX: session.index,
                semconv.ROLLOUT_SESSION: session.session,
                semconv.STEP: self.step,
                semconv.EPOCH: self._epoch,
                semconv.VALIDATION: self.validation,
                **(more or {}),
            },
            scope=scope.Scope(self.step, None, self.validation, epoch=self._epoch),
            root=True,
            parent=_slot.holding(self),
            links=[self._link],
            sampled=sampled,
            private=True,
            start_time=self._started,
        )

    def stop(self) -> None:
        """The session returned."""
        self._finish(FINISHED)
        self.recording.stop()

    def fail(self, error: BaseException) -> None:
        """The session raised."""
        cancelled = type(error).__name__ in CANCELLATIONS
        self._finish(CANCELLED if cancelled else FAILED)
        self.recording.fail(error)
        if not self._sampled and not cancelled:
            self._show_failed(error)

    def _show_failed(self, error: BaseException) -> None:
        global _failed_shown
        if _failed_shown < MOST_FAILED:
            _failed_shown += 1
            shown = self._record(sampled=True, more={semconv.ROLLOUT_KEPT_FOR: FAILED, **self._outcome(FAILED)})
            shown.fail(error)

    def _finish(self, outcome: str) -> None:
        _running.pop(id(self), None)
        _last_end[self.validation] = time_ns()
        with guard("ending a trajectory"):
            self.recording.set(self._outcome(outcome))
            labels = {**self._labels, semconv.ROLLOUT_OUTCOME: outcome}
            count(semconv.ROLLOUT_ENDED, 1, labels)
            named = {semconv.GEN_AI_AGENT_NAME: self.session.agent, **labels}
            for metric, value in (
                (semconv.INVOKE_AGENT_DURATION, self.recording.seconds),
                (semconv.INVOKE_AGENT_MODEL_CALLS, self.model_calls),
                (semconv.INVOKE_AGENT_TOOL_CALLS, self.tool_calls),
            ):
                measure(metric, value, named, self.recording.span)
            if (result := self.result) is not None:
                for kind in ("prompt", "response", "generated"):
                    tokens = {**self._labels, semconv.TOKEN_KIND: kind}
                    measure(semconv.ROLLOUT_TOKENS, getattr(result, kind), tokens, self.recording.span)

    def _outcome(self, outcome: str) -> dict[str, Any]:
        found = {
            semconv.ROLLOUT_OUTCOME: outcome,
            semconv.ROLLOUT_MODEL_CALLS: self.model_calls,
            semconv.ROLLOUT_TOOL_CALLS: self.tool_calls,
            semconv.ROLLOUT_CALLS_UNSHOWN: max(0, self.model_calls + self.tool_calls - MOST_CALLS) or None,
            semconv.ROLLOUT_RESUMED: self.resumed or None,
            semconv.ROLLOUT_STOP_REASON: self.stop_reason,
        }
        if (result := self.result) is not None:
            parts = list(result.parts.items())[:MOST_PARTS]
            found |= {
                semconv.ROLLOUT_OUTPUTS: result.outputs,
                semconv.ROLLOUT_TURNS: result.turns,
                semconv.ROLLOUT_PROMPT_TOKENS: result.prompt,
                semconv.ROLLOUT_RESPONSE_TOKENS: result.response,
                semconv.ROLLOUT_GENERATED_TOKENS: result.generated,
                semconv.WEIGHTS_OLDEST: result.oldest,
                semconv.WEIGHTS_NEWEST: result.newest,
                semconv.REWARD: result.reward,
                **{semconv.REWARD_PART + name: value for name, value in parts},
            }
        return found


_slot = Slot(Trajectory)
current = _slot.current
"""The trajectory that the code at hand belongs to, in its own process; else None."""


class Waiting:
    """From now on until `over`, the current trajectory waits for `what`: one of the words above."""

    def __init__(self, what: str) -> None:
        self.trajectory = current()
        self._what = what
        if self.trajectory is not None:
            self.trajectory.waits.append(what)

    def over(self) -> None:
        """It has what it waited for."""
        if self.trajectory is not None and self._what in self.trajectory.waits:
            self.trajectory.waits.remove(self._what)


def is_waiting_for(what: str) -> bool:
    """Whether the current trajectory waits for that already."""
    trajectory = current()
    return trajectory is not None and what in trajectory.waits


_running: dict[int, Trajectory] = {}
_last_end: dict[bool, int] = {}
_failed_shown = 0


def progress(time: int) -> "Iterable[Metric]":
    """What runs now, by what it waits for, and how long the oldest has; zeros once there was any."""
    from verl_otel.delivery.points import gauge

    running = list(_running.values())
    counts = Counter((one.validation, one.waiting_for) for one in running)
    _seen.update(counts)
    points = [(_named(key), counts[key]) for key in _seen]
    if points:
        yield gauge(semconv.ROLLOUT_RUNNING, points, time)
    if _last_end:
        ends = [({semconv.VALIDATION: one}, at / 1e9) for one, at in dict(_last_end).items()]
        yield gauge(semconv.ROLLOUT_LAST_END, ends, time)
    oldest: dict[bool, Trajectory] = {}
    for one in running:  # in the order of their start
        oldest.setdefault(one.validation, one)
    if oldest:
        found = [(_named((one.validation, one.waiting_for)), one.recording.seconds) for one in oldest.values()]
        yield gauge(semconv.ROLLOUT_OLDEST, found, time)


def _named(key: tuple[bool, str]) -> dict[str, Any]:
    return {semconv.VALIDATION: key[0], semconv.ROLLOUT_WAITING_FOR: key[1]}


_seen: set[tuple[bool, str]] = set()
produce(progress)


def reset() -> None:
    """Forget everything, in a forked child and between tests."""
    global _failed_shown
    _running.clear()
    _last_end.clear()
    _seen.clear()
    _failed_shown = 0


os.register_at_fork(after_in_child=reset)
