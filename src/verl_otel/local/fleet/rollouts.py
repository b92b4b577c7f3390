"""The made fleet's rollouts: trajectories with their calls, and when each replica was at work."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.fleet.cast import SECOND, Fleet, agent_name, replica_name
from verl_otel.local.fleet.messages import CLIENT, SERVER, Batch, Request, Span, span_id, trace_id
from verl_otel.local.fleet.steps import Step

_AGENT: Final = "tool_agent"
_TOOL: Final = "search"
_REWARD: Final = "compute_score"
_ENGINE: Final = "vllm"
_CUT: Final = 10 * SECOND
"""A replica's busy interval is cut so often."""


@dataclass(frozen=True)
class Trajectory:
    """One that a step trained on, made while the step before it was trained. Times in ns."""

    step: int
    group: int
    session: int
    start: int
    reward: float
    turns: int
    oldest: int

    @property
    def uid(self) -> str:
        """Of its prompt."""
        return f"{trace_id('prompt', self.step, self.group).hex()[:8]}-{self.group:04}"

    @property
    def ids(self) -> tuple[bytes, bytes]:
        """Of its trace, and of its root."""
        return trace_id("trajectory", self.step, self.group, self.session), span_id(
            "trajectory", self.step, self.group, self.session
        )


def of_step(fleet: Fleet, step: Step, before: Step | None) -> list[Trajectory]:
    """Those that it trained on."""
    chance = fleet.chance("trajectories", step.number)
    begin = before.phase("gen").end if before else step.start
    found = []
    for group in range(fleet.groups):
        skill = min(0.95, max(0.02, chance.gauss(0.25 + 0.45 * min(1.0, step.number / 900), 0.28)))
        for session in range(fleet.sessions):
            # Half of a step's rollouts begin while the step before is still being trained.
            start = begin + int(chance.random() * 0.5 * max(step.phase("gen").start - begin, SECOND))
            reward = 1.0 if chance.random() < skill else round(chance.uniform(0, 0.1), 2)
            turns = 1 + (chance.random() < 0.6) + (chance.random() < 0.3) + (chance.random() < 0.1)
            oldest = max(0, step.number - 1 - (chance.random() < 0.4) - (chance.random() < 0.08))
            found.append(Trajectory(step.number, group, session, start, reward, turns, oldest))
    return found


def spans(fleet: Fleet, batch: Batch, step: Step, made: list[Trajectory]) -> Iterator[Request]:
    """The trajectories' traces; each ends before its step has its batch."""
    last = step.phase("gen").end
    for place, one in enumerate(made):
        _Story(fleet, batch, one, place).tell(step, last)
    yield from batch.take()


class _Story:
    """A trajectory from its first call to its reward."""

    def __init__(self, fleet: Fleet, batch: Batch, one: Trajectory, place: int) -> None:
        self._one, self._batch = one, batch
        self._chance: Random = fleet.chance("story", one.step, one.group, one.session)
        self._agent = agent_name(place % fleet.agents)
        replica = self._chance.randrange(fleet.replicas)
        # One gets few.
        self._replica = replica if replica != fleet.idle_replica else (replica + 1) % fleet.replicas
        self._trace, self._root = one.ids
        self._prompt = self._chance.randint(180, 1400)
        self._response = 0
        self._generated = 0

    def tell(self, step: Step, last: int) -> None:
        chance, one = self._chance, self._one
        long_tail = chance.random() < 0.04
        available = last - SECOND // 2 - one.start
        seconds = available * (
            chance.uniform(0.9, 0.995) if long_tail else min(0.85, chance.lognormvariate(-1.1, 0.45))
        )
        failed = chance.random() < 0.008
        at, share = one.start, seconds / one.turns
        for turn in range(one.turns):
            is_last = turn == one.turns - 1
            at = self._call(
                turn, at, int(share * (0.92 if is_last else 0.72)), stop="length" if long_tail else "completed"
            )
            if not is_last:
                at = self._tool(turn, at, int(share * 0.24))
        at = self._reward(at, int(share * 0.05), failed=failed)
        told = {
            semconv.GEN_AI_OPERATION_NAME: semconv.SPAN_AGENT,
            semconv.GEN_AI_AGENT_NAME: _AGENT,
            semconv.SAMPLE_UID: one.uid,
            semconv.SAMPLE_INDEX: one.group + 64 * one.step,
            semconv.ROLLOUT_SESSION: one.session,
            semconv.STEP: one.step,
            semconv.VALIDATION: False,
            semconv.ROLLOUT_OUTCOME: "failed" if failed else "finished",
            semconv.ROLLOUT_MODEL_CALLS: one.turns,
            semconv.ROLLOUT_TOOL_CALLS: one.turns - 1,
            semconv.ROLLOUT_STOP_REASON: "length" if long_tail else "completed",
            semconv.ROLLOUT_OUTPUTS: 1,
            semconv.ROLLOUT_TURNS: 2 * one.turns,
            semconv.ROLLOUT_PROMPT_TOKENS: self._prompt,
            semconv.ROLLOUT_RESPONSE_TOKENS: self._response,
            semconv.ROLLOUT_GENERATED_TOKENS: self._generated,
            semconv.WEIGHTS_OLDEST: one.oldest,
            semconv.WEIGHTS_NEWEST: one.step - 1,
            semconv.REWARD: None if failed else one.reward,
            semconv.REWARD_PART + "accuracy": None if failed else float(one.reward == 1.0),
            semconv.REWARD_PART + "format": None if failed else 1.0,
        }
        name = f"{semconv.SPAN_AGENT} {_AGENT}"
        error = "TimeoutError: the reward didn't answer" if failed else None
        links = [(step.trace, step.root)]
        self._batch.span(
            self._agent,
            Span(self._trace, self._root, b"", name, one.start, at + SECOND // 100, told, error=error, links=links),
        )

    def _call(self, turn: int, start: int, length: int, stop: str) -> int:
        """A model call; when it ended."""
        chance, one = self._chance, self._one
        tokens = max(8, int(length / SECOND * chance.uniform(18, 46)))
        given = self._prompt + self._response
        self._response += tokens
        self._generated += tokens
        own = span_id("chat", self._trace, turn)
        balanced = chance.uniform(0.001, 0.02)
        told = {
            semconv.GEN_AI_OPERATION_NAME: semconv.SPAN_GENERATE_CLIENT,
            semconv.ROLE: "rollout",
            semconv.STEP: one.step,
            semconv.GEN_AI_INPUT_TOKENS: given,
            semconv.GEN_AI_OUTPUT_TOKENS: tokens,
            semconv.BALANCER_WAIT: balanced,
            semconv.BALANCER_STICKY: None if turn == 0 else chance.random() < 0.9,
            semconv.GEN_AI_FINISH_REASONS: [stop],
            semconv.WEIGHTS_VERSION: one.oldest,
            semconv.SERVER_ADDRESS: f"rollout-{self._replica:03}",
            semconv.SERVER_PORT: 8000,
        }
        name = semconv.SPAN_GENERATE_CLIENT
        self._batch.span(self._agent, Span(self._trace, own, self._root, name, start, start + length, told, CLIENT))
        begin = start + int(balanced * SECOND)
        parked, queued = (chance.uniform(1, 4) if chance.random() < 0.1 else 0.0), chance.expovariate(1.2)
        first = queued + given / 9000
        engine: dict[str, Any] = {
            semconv.ROLE: "rollout",
            semconv.GEN_AI_PROVIDER_NAME: _ENGINE,
            semconv.REPLICA: self._replica,
            semconv.LANE: replica_name(self._replica),
            semconv.STEP: one.step,
            semconv.ENGINE_INPUT_TOKENS: given,
            semconv.ENGINE_OUTPUT_TOKENS: tokens,
            semconv.ENGINE_CACHED_TOKENS: 0 if turn == 0 else given * 9 // 10,
            semconv.ENGINE_FINISH_REASON: stop,
            semconv.ENGINE_PARKED: parked or None,
            semconv.ENGINE_QUEUED: queued,
            semconv.ENGINE_FIRST_TOKEN: first,
            semconv.ENGINE_PER_TOKEN: max(0.001, (length / SECOND - first - parked) / tokens),
            semconv.WEIGHTS_VERSION: one.oldest,
        }
        self._batch.span(
            replica_name(self._replica),
            Span(
                self._trace, span_id("engine", own), own, semconv.SPAN_GENERATE_SERVER, begin,
                max(begin, start + length - SECOND // 500), engine, SERVER,
            ),
        )  # fmt: skip
        return start + length

    def _tool(self, turn: int, start: int, length: int) -> int:
        self._response += self._chance.randint(60, 400)
        outcome = "succeeded" if self._chance.random() > 0.03 else "failed"
        told = {
            semconv.GEN_AI_OPERATION_NAME: semconv.SPAN_TOOL,
            semconv.GEN_AI_TOOL_NAME: _TOOL,
            semconv.GEN_AI_TOOL_TYPE: "function",
            semconv.TOOL_OUTCOME: outcome,
            semconv.STEP: self._one.step,
            semconv.ERROR_TYPE: None if outcome == "succeeded" else "ReadTimeout",
        }
        own = span_id("tool", self._trace, turn)
        error = None if outcome == "succeeded" else "ReadTimeout"
        name = f"{semconv.SPAN_TOOL} {_TOOL}"
        self._batch.span(
            self._agent, Span(self._trace, own, self._root, name, start, start + length, told, error=error)
        )
        return start + length

    def _reward(self, start: int, length: int, *, failed: bool) -> int:
        told = {
            semconv.REWARD_FUNCTION: _REWARD,
            semconv.GEN_AI_SCORE_NAME: _REWARD,
            semconv.SAMPLE_UID: self._one.uid,
            semconv.ROLLOUT_SESSION: self._one.session,
            semconv.STEP: self._one.step,
            semconv.DATA_SOURCE: "made/puzzles",
            semconv.GEN_AI_SCORE: None if failed else self._one.reward,
            semconv.ERROR_TYPE: "TimeoutError" if failed else None,
        }
        own = span_id("reward", self._trace)
        error = "TimeoutError" if failed else None
        self._batch.span(
            self._agent,
            Span(self._trace, own, self._root, semconv.SPAN_REWARD, start, start + length, told, error=error),
        )
        return start + length


def of_replicas(fleet: Fleet, batch: Batch, step: Step) -> Iterator[Request]:
    """When each replica had requests during a step, and when it took new weights."""
    sync = step.phase("update_weights")
    for replica in range(fleet.replicas):
        chance = fleet.chance("replica", step.number, replica)
        who = {
            semconv.ROLE: "rollout",
            semconv.GEN_AI_PROVIDER_NAME: _ENGINE,
            semconv.REPLICA: replica,
            semconv.LANE: replica_name(replica),
            semconv.STEP: step.number,
        }
        at = step.start + int(chance.uniform(0, 1.5) * SECOND)
        idle_from = sync.start - int(chance.expovariate(0.12) * SECOND)
        if replica == fleet.idle_replica:
            idle_from = step.start + (sync.start - step.start) // 3
        for begin, until, version in ((at, idle_from, step.number - 1), (sync.end, step.end, step.number)):
            number = 0
            while begin < until:
                end = min(begin + _CUT, until)
                told = {
                    **who,
                    semconv.WEIGHTS_VERSION: version,
                    semconv.ENGINE_REQUESTS: chance.randint(4, 24),
                    semconv.ENGINE_OUTPUT_TOKENS: int((end - begin) / SECOND * chance.uniform(600, 1400)),
                }
                own = span_id("busy", step.number, replica, version, number)
                trace = trace_id("busy", step.number, replica, version, number)
                batch.span(replica_name(replica), Span(trace, own, b"", semconv.SPAN_REPLICA_BUSY, begin, end, told))
                begin, number = end, number + 1
        weights = {**who, semconv.WEIGHTS_VERSION: step.number}
        own = span_id("weights", step.number, replica)
        parent = span_id("phase", step.number, sync.name)
        name = semconv.SPAN_REPLICA + "clear_kv_cache"
        begin = sync.start + int(chance.uniform(0.05, 0.2) * (sync.end - sync.start))
        batch.span(replica_name(replica), Span(step.trace, own, parent, name, begin, sync.end, weights))
    yield from batch.take()
