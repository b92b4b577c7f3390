"""The made fleet's steps: when each phase ran, the trainer's spans, and those of every rank."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.fleet.cast import SECOND, TRAINER, Fleet, rank_name
from verl_otel.local.fleet.messages import Batch, Request, Span, span_id, trace_id

_PHASES: Final = (
    # name, seconds, the worker's method if it has one
    ("gen", 41.0, None),
    ("reward", 0.8, None),
    ("old_log_prob", 17.0, "compute_log_prob"),
    ("ref", 15.0, "compute_ref_log_prob"),
    ("adv", 0.6, None),
    ("update_actor", 58.0, "update_actor"),
    ("update_weights", 7.0, "update_weights"),
)
_TESTING: Final = ("testing", 64.0)
_SAVING: Final = ("save_checkpoint", 33.0)
_TEST_EVERY: Final = 10
_SAVE_EVERY: Final = 20
_UNEXPLAINED: Final = 0.4
"""Seconds of a step before its first phase and after its last."""
_ROLE: Final = "actor"
_STEPS_OF_A_REQUEST: Final = 200


@dataclass(frozen=True)
class Phase:
    """When it ran, in ns."""

    name: str
    start: int
    end: int
    method: str | None = None


@dataclass(frozen=True)
class Step:
    """A step, and the phases in it, in order. Times in ns."""

    number: int
    start: int
    end: int
    phases: tuple[Phase, ...]

    @property
    def trace(self) -> bytes:
        """Of its root."""
        return trace_id("step", self.number)

    @property
    def root(self) -> bytes:
        """Its span."""
        return span_id("step", self.number)

    def phase(self, name: str) -> Phase:
        """One that every step has."""
        return next(one for one in self.phases if one.name == name)


def schedule(fleet: Fleet, end: int) -> list[Step]:
    """All steps, the last of which ends then (ns since the epoch)."""
    found: list[Step] = []
    for number in range(fleet.history + fleet.steps, 0, -1):
        phases: list[Phase] = []
        before = end - int(_UNEXPLAINED * SECOND)
        for name, seconds, method in reversed(_durations(fleet, number)):
            start = before - int(seconds * SECOND)
            phases.insert(0, Phase(name, start, before, method))
            before = start
        found.append(Step(number, before - int(_UNEXPLAINED * SECOND), end, tuple(phases)))
        end = found[-1].start - SECOND // 20
    return found[::-1]


def _durations(fleet: Fleet, number: int) -> list[tuple[str, float, str | None]]:
    chance = fleet.chance("phases", number)
    # Answers grow longer while it learns, and now and then a rollout has a tail.
    growth = 1 + 0.6 * min(1.0, number / 800)
    found = []
    for name, seconds, method in _PHASES:
        tail = 2.4 if name == "gen" and chance.random() < 0.03 else 1.0
        found.append((name, seconds * growth * tail * chance.uniform(0.94, 1.08), method))
    if number % _SAVE_EVERY == 0:
        found.append((_SAVING[0], _SAVING[1] * chance.uniform(0.9, 1.3), None))
    if number % _TEST_EVERY == 0:
        found.append((_TESTING[0], _TESTING[1] * chance.uniform(0.9, 1.2), None))
    return found


def of_trainer(
    batch: Batch, steps: list[Step], consumed: dict[int, list[tuple[str, bytes, bytes]]]
) -> Iterator[Request]:
    """The spans of all steps; `consumed`: of a step the trajectories that it trained on (name, trace, span)."""
    for place, step in enumerate(steps, 1):
        common = {semconv.STEP: step.number, semconv.LANE: "trainer"}
        root = {**common, semconv.EPOCH: step.number // 400}
        batch.span(TRAINER, Span(step.trace, step.root, b"", semconv.SPAN_STEP, step.start, step.end, root))
        for phase in step.phases:
            told: dict[str, Any] = {**common, semconv.PHASE: phase.name}
            links: list[tuple[bytes, bytes]] = []
            if phase.name == "gen" and (theirs := consumed.get(step.number)):
                told[semconv.ROLLOUT_CONSUMED] = [name for name, _, _ in theirs[:64]]
                told[semconv.ROLLOUT_CONSUMED_COUNT] = len(theirs)
                links = [(trace, span) for _, trace, span in theirs]
            name = semconv.SPAN_PHASE + phase.name
            own = phase_id(step, phase)
            batch.span(TRAINER, Span(step.trace, own, step.root, name, phase.start, phase.end, told, links=links))
        if place % _STEPS_OF_A_REQUEST == 0 or place == len(steps):
            yield from batch.take()


def of_ranks(fleet: Fleet, batch: Batch, step: Step) -> Iterator[Request]:
    """What every rank worked in a step."""
    for phase in step.phases:
        if phase.method is None:
            continue
        chance = fleet.chance("ranks", step.number, phase.name)
        parent = phase_id(step, phase)
        whole = phase.end - phase.start
        usual = NormalDist(0.86, 0.012).samples(fleet.ranks, seed=chance.randrange(1 << 30))
        for rank in range(fleet.ranks):
            share = min(0.93, usual[rank])
            if rank // 8 == fleet.slow_host:
                share += 0.03
            if rank == fleet.slow_rank and phase.name == "update_actor":
                share = 0.995
            start = phase.start + int(chance.uniform(0.001, 0.004) * whole)
            told = {
                semconv.ROLE: _ROLE,
                semconv.WORKER_METHOD: phase.method,
                semconv.RANK: rank,
                semconv.PHASE: phase.name,
                semconv.STEP: step.number,
                semconv.LANE: rank_name(rank),
            }
            own = span_id("rank", step.number, phase.name, rank)
            end = min(start + int(share * whole), phase.end)
            batch.span(
                rank_name(rank), Span(step.trace, own, parent, semconv.SPAN_WORKER + phase.method, start, end, told)
            )
    yield from batch.take()


def phase_id(step: Step, phase: Phase) -> bytes:
    """Of a phase's span."""
    return span_id("phase", step.number, phase.name)
