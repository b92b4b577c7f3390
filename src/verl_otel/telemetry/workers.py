"""Calls of a worker's methods: one span a rank, below the phase that asked for it."""

from dataclasses import dataclass
from typing import Final

from opentelemetry import context

from verl_otel import runtime, semconv
from verl_otel.telemetry import content, scope, whoami
from verl_otel.telemetry.recording import Recording

_INSIDE: Final = context.create_key("verl-otel-inside-worker-call")


@dataclass(frozen=True)
class WorkerCall:
    """A call of `method` on the worker of `role` and `rank` (unique only together)."""

    role: str
    rank: int
    method: str


def start(call: WorkerCall) -> Recording | None:
    """Start the call's span; None for one that another call makes in this process, unless the settings ask for it."""
    if context.get_value(_INSIDE) and not runtime.current().settings.nested_worker_spans:
        return None
    content.not_handled()
    whoami.is_(call.role, rank=call.rank)
    here = scope.current()
    named = {semconv.ROLE: call.role, semconv.WORKER_METHOD: call.method}
    return Recording(
        semconv.SPAN_WORKER + call.method,
        {
            **named,
            semconv.RANK: call.rank,
            semconv.PHASE: here.phase,
            semconv.STEP: here.step,
            semconv.LANE: f"{call.role}/{call.rank}",
        },
        scope=here._replace(role=call.role, rank=call.rank),
        parent=context.set_value(_INSIDE, True),
        duration=(semconv.WORKER_DURATION, named),
        shown_open={**named, semconv.RANK: call.rank, **({semconv.PHASE: here.phase} if here.phase else {})},
    )
