"""Tools: the agent loop's call of one, and the tool itself, since the loop turns whatever it raises into a text."""

import functools
import json
from collections.abc import Callable
from typing import Any, Final

from verl_otel.guard import guard
from verl_otel.instrumentors.base import Target, VerlInstrumentor, observed, read_after
from verl_otel.instrumentors.reading import number, text
from verl_otel.patching import Wrapper, patches
from verl_otel.telemetry import content, tools
from verl_otel.telemetry.tools import Tool, ToolCall

_NAME: Final = "verl_tools"
_MARK: Final = "__verl_otel_tool__"
_own: Final = patches(_NAME)


def start_tool_call(loop: Any, tool_call: Any, tools_kwargs: Any, agent_data: Any, *_: Any, **__: Any) -> ToolCall:
    """The model asked for a tool."""
    return ToolCall(read_tool_call(tool_call, getattr(agent_data, "_active_tools", loop.tools)))


def read_tool_call(asked: Any, known: Any) -> Tool:
    """Which tool, and whether verl will call it: it asks the same of name and arguments."""
    name, arguments = asked.name, asked.arguments
    # Some models' parsers take it, too, from what the model wrote.
    call_id = getattr(asked, "tool_call_id", None) if content.captured() else None
    fault = None
    if name not in known:
        fault = tools.UNKNOWN
    elif not _is_json(arguments):
        fault = tools.INVALID
    return Tool(
        str(name) if fault != tools.UNKNOWN else None,
        text(call_id),
        str(arguments) if content.captured() else None,
        fault,
    )


def _is_json(text: Any) -> bool:
    try:
        json.loads(text)
    except (json.JSONDecodeError, TypeError):
        return False
    return True


def finish_tool_call(call: ToolCall, result: Any) -> None:
    """The loop has an answer for the model."""
    response, reward, *_ = result
    said = getattr(response, "text", None) if content.captured() else None
    call.answered(text(said), number(reward))


def wrap_step(*, is_call: bool) -> Wrapper:
    """Watch what a tool does, for the call that asked for it. `is_call`: outside of any such call it is one itself."""

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        alone = observed(_own, lambda tool, *_, **__: ToolCall(Tool(str(tool.name))))(original)

        @functools.wraps(original)
        async def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            call = None
            with guard("a tool's call"):
                call = tools.current() if _own.active else None
            if call is None:
                return await (alone if is_call else original)(self, *args, **kwargs)
            before = call.error
            try:
                result = await original(self, *args, **kwargs)
            except BaseException as error:
                call.error = error
                raise
            call.error = before  # what it caught itself was no failure
            return result

        setattr(step, _MARK, True)
        return step

    return wrapper


def watch_class(_: Any, tool: Any, *__: Any, **___: Any) -> None:
    """A tool was made: watch its class, a user's own too."""
    for cls in type(tool).__mro__:
        _watch(cls)


def _watch(cls: type) -> None:
    for name in ("create", "execute", "release"):
        method = vars(cls).get(name)
        if method is not None and not getattr(method, _MARK, False):
            _own.wrap(cls, name, wrap_step(is_call=name == "execute"))


class ToolsInstrumentor(VerlInstrumentor):
    """Tool calls, from verl's tool agent loop and from the tools themselves."""

    name = _NAME
    targets = (
        Target(
            "verl.experimental.agent_loop.tool_agent_loop",
            "ToolAgentLoop._call_tool",
            observed(_own, start_tool_call, finish_tool_call),
            reads=("tool_call", "tools_kwargs", "agent_data"),
        ),
        Target("verl.tools.base_tool", "BaseTool.__init__", read_after(_own, "watching a tool's class", watch_class)),
        Target("verl.tools.function_tool", "FunctionTool.call", wrap_step(is_call=True), since="0.8.0"),
    )
