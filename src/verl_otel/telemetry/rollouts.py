"""Rollouts: a trace for each trajectory, linked to what dispatched it, with both sides of each model call."""

from dataclasses import dataclass
from typing import Any

from opentelemetry.trace import SpanKind

from verl_otel import semconv
from verl_otel.telemetry import scope
from verl_otel.telemetry.recording import Recording


@dataclass(frozen=True)
class Trajectory:
    """One session of an agent loop; None where the loop doesn't say."""

    agent: str
    uid: str | None = None
    session: int | None = None
    step: int | None = None
    validation: bool = False


@dataclass(frozen=True)
class Generation:
    """What a model call gave: tokens in and out, and why it ended; None where unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None


def start_trajectory(one: Trajectory) -> Recording:
    """Start the trajectory's own trace, linked to the step, validation or warm-up that dispatched it."""
    here = scope.current()
    step = here.step if one.step is None else one.step
    return Recording(
        f"{semconv.SPAN_AGENT} {one.agent}",
        {
            semconv.GEN_AI_OPERATION_NAME: semconv.SPAN_AGENT,
            semconv.GEN_AI_AGENT_NAME: one.agent,
            semconv.SAMPLE_UID: one.uid,
            semconv.ROLLOUT_SESSION: one.session,
            semconv.STEP: step,
            semconv.VALIDATION: one.validation or here.validation,
        },
        scope=scope.Scope(step, None, one.validation or here.validation),
        root=True,
        links=[scope.root()],
    )


def start_model_call() -> Recording:
    """Start the agent loop's side of a model call."""
    here = scope.current()
    return Recording(
        semconv.SPAN_GENERATE_CLIENT,
        {semconv.GEN_AI_OPERATION_NAME: semconv.SPAN_GENERATE_CLIENT, semconv.STEP: here.step},
        scope=here,
        kind=SpanKind.CLIENT,
    )


def start_engine_call(engine: str, replica: int | None) -> Recording:
    """Start the engine's side of a model call."""
    here = scope.current()
    return Recording(
        semconv.SPAN_GENERATE_SERVER,
        {
            semconv.GEN_AI_PROVIDER_NAME: engine,
            semconv.REPLICA: replica,
            semconv.LANE: f"replica/{replica}" if replica is not None else None,
            semconv.STEP: here.step,
        },
        scope=here,
        kind=SpanKind.SERVER,
    )


def client_attributes(done: Generation) -> dict[str, Any]:
    """For the agent loop's side, by OTel's gen_ai convention."""
    return {
        semconv.GEN_AI_INPUT_TOKENS: done.input_tokens,
        semconv.GEN_AI_OUTPUT_TOKENS: done.output_tokens,
        semconv.GEN_AI_FINISH_REASONS: (done.finish_reason,) if done.finish_reason else None,
    }


def engine_attributes(done: Generation) -> dict[str, Any]:
    """For the engine's side: names of our own, so that no backend counts the tokens twice."""
    return {
        semconv.ENGINE_INPUT_TOKENS: done.input_tokens,
        semconv.ENGINE_OUTPUT_TOKENS: done.output_tokens,
        semconv.ENGINE_FINISH_REASON: done.finish_reason,
    }
