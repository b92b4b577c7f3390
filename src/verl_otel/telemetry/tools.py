"""Tool calls of an agent loop, with how they ended: verl turns what a tool raises into a text for the model."""

from dataclasses import dataclass
from typing import Any, Final

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.telemetry import content, scope, trajectories
from verl_otel.telemetry.instruments import measure
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.slot import Slot

SUCCEEDED: Final = "succeeded"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown_tool"
INVALID: Final = "invalid_arguments"
CANCELLED: Final = "cancelled"


@dataclass(frozen=True)
class Tool:
    """A call of a tool by name; `name` is None for one that the run doesn't have, since the model made that up.

    `fault`: why the tool is not even called (one of the words above), or None. `arguments`: the model's text.
    """

    name: str | None
    call_id: str | None = None
    arguments: str | None = None
    fault: str | None = None


class ToolCall:
    """A call from its start to `stop` or `fail`; meanwhile its trajectory waits for the tool."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self.error: BaseException | None = None
        """What the tool raised, whatever its caller makes of that."""
        self._waiting = trajectories.Waiting(trajectories.TOOL)
        self._trajectory = self._waiting.trajectory
        if (trajectory := self._trajectory) is not None:
            trajectory.tool_calls += 1
        here = scope.current()
        self.recording = Recording(
            semconv.SPAN_TOOL if tool.name is None else f"{semconv.SPAN_TOOL} {tool.name}",
            {
                semconv.GEN_AI_OPERATION_NAME: semconv.SPAN_TOOL,
                semconv.GEN_AI_TOOL_NAME: tool.name,
                semconv.GEN_AI_TOOL_TYPE: "function",
                semconv.GEN_AI_TOOL_CALL_ID: tool.call_id,
                semconv.STEP: here.step,
            },
            scope=here,
            parent=_slot.holding(self),
            sampled=trajectory is None or trajectory.has_room,
            private=True,
        )
        if tool.arguments is not None:
            self._keep({semconv.GEN_AI_TOOL_ARGUMENTS: content.cut(tool.arguments)})

    def answered(self, text: str | None, reward: float | None) -> None:
        """What the model will read, where content is captured, and the reward that the tool gave."""
        self.recording.set({semconv.TOOL_REWARD: reward})
        if text is not None:
            self._keep({semconv.GEN_AI_TOOL_RESULT: content.cut(text)})

    def stop(self) -> None:
        """Its caller has an answer, good or bad."""
        error, self.error = self.error, None
        if error is not None:
            self._finish(FAILED, type(error).__name__)
            self.recording.fail(error)
            return
        self._finish(self._tool.fault or SUCCEEDED, self._tool.fault)
        if self._tool.fault is not None:
            self.recording.refuse(self._tool.fault)
        self.recording.stop()

    def fail(self, error: BaseException) -> None:
        """Its caller raised, or was cancelled."""
        cancelled = type(error).__name__ in trajectories.CANCELLATIONS
        self._finish(CANCELLED if cancelled else FAILED, type(error).__name__)
        self.recording.fail(error)

    def _keep(self, texts: dict[str, str]) -> None:
        content.keep(self.recording.span, texts, self._trajectory.room if self._trajectory is not None else None)

    def _finish(self, outcome: str, error: str | None) -> None:
        self._waiting.over()
        with guard("ending a tool call"):
            self.recording.set({semconv.TOOL_OUTCOME: outcome})
            labels: dict[str, Any] = {semconv.TOOL_OUTCOME: outcome, semconv.VALIDATION: scope.current().validation}
            if self._tool.name is not None:
                labels[semconv.GEN_AI_TOOL_NAME] = self._tool.name
            if error is not None:
                labels[semconv.ERROR_TYPE] = error
            measure(semconv.EXECUTE_TOOL_DURATION, self.recording.seconds, labels, self.recording.span)


_slot = Slot(ToolCall)
current = _slot.current
"""The tool call that the code at hand belongs to; else None."""
