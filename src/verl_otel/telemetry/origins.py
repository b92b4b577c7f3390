"""Where a trajectory came from, told to whoever trains on it: in the tags of its batch, as messages have headers.

What the trainer finds there is what only the trajectory's own process knew: its trace, its replica, its reward's parts.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from verl_otel.telemetry import rewards, trajectories

TAG: Final = "verl_otel"
_SERVER: Final = "server"
_PARTS: Final = "reward"
_propagator: Final = TraceContextTextMapPropagator()


class Origin(NamedTuple):
    """`server`: host:port of the last replica that it asked. `parts`: of its reward, the score among them."""

    trajectory: SpanContext = trace.INVALID_SPAN_CONTEXT
    server: str | None = None
    parts: Mapping[str, float] = {}


def carried() -> dict[str, Any] | None:
    """The tag of the current trajectory; None outside of one."""
    if (trajectory := trajectories.current()) is None:
        return None
    tag: dict[str, Any] = {}
    _propagator.inject(tag, trace.set_span_in_context(trajectory.recording.span, Context()))
    if trajectory.replica is not None:
        tag[_SERVER] = trajectory.replica
    if (result := trajectory.result) is not None:
        score = {} if result.reward is None else {rewards.SCORE: result.reward}
        parts = list({**score, **result.parts}.items())
        tag[_PARTS] = dict(parts[: trajectories.MOST_PARTS])
    return tag


def read(tag: Any) -> Origin:
    """What a tag of ours says; an empty origin if it is none."""
    if not isinstance(tag, Mapping):
        return Origin()
    found = trace.get_current_span(_propagator.extract(tag, Context())).get_span_context()
    return Origin(found, tag.get(_SERVER), tag.get(_PARTS) or {})
