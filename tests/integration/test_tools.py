"""Tools on verl's real agent loop: what raises becomes a text for the model, and is told all the same."""

import asyncio
import json
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.verl
pytest.importorskip("verl")

from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop  # noqa: E402
from verl.experimental.agent_loop.tool_parser import FunctionCall  # noqa: E402
from verl.tools.base_tool import BaseTool  # noqa: E402
from verl.tools.function_tool import FunctionTool  # noqa: E402
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse  # noqa: E402

import verl_otel  # noqa: E402
from verl_otel.telemetry.trajectories import Session, Trajectory  # noqa: E402

MARK = "what a tool says"


class Stateful(BaseTool):
    """A user's tool with a life cycle, and one place where it fails."""

    def __init__(self, fails=None):
        super().__init__({}, OpenAIFunctionToolSchema.model_validate(schema_of("stateful")))
        self.fails = fails
        self.steps = []

    def _step(self, name):
        self.steps.append(name)
        if self.fails == name:
            raise RuntimeError(f"{MARK} in {name}")

    async def create(self, instance_id=None, **kwargs):
        self._step("create")
        return "instance", ToolResponse()

    async def execute(self, instance_id, parameters, **kwargs):
        self._step("execute")
        await asyncio.sleep(parameters.get("seconds", 0))
        return ToolResponse(text=f"{MARK} answer"), 0.5, {}

    async def release(self, instance_id, **kwargs):
        self._step("release")


def schema_of(name):
    parameters = {"type": "object", "properties": {}, "required": []}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


def function(run, name="plain"):
    return FunctionTool(name, run, OpenAIFunctionToolSchema.model_validate(schema_of(name)))


@pytest.fixture
def instrumented(recorded):
    verl_otel.instrument()
    yield recorded
    verl_otel.uninstrument()


def call(tool, name=None, arguments="{}", **options):
    """What the loop gives the model for a call of `tool`, made in a trajectory."""
    loop = ToolAgentLoop.__new__(ToolAgentLoop)
    loop.tools = {tool.name: tool}
    loop.max_tool_response_length, loop.tool_response_truncate_side = 100, "left"

    async def run():
        trajectory = Trajectory(Session("tool_agent"))
        asked = FunctionCall(name=name or tool.name, arguments=arguments)
        try:
            return await asyncio.wait_for(loop._call_tool(asked, {}, SimpleNamespace()), **{"timeout": 10, **options})
        finally:
            trajectory.stop()

    return asyncio.run(run())


def only_tool_span(recorded):
    (span,) = (one for one in recorded.exporter.get_finished_spans() if one.name.startswith("execute_tool"))
    return span


def test_a_tool_with_a_life_cycle(instrumented):
    tool = Stateful()
    response, reward, _ = call(tool)
    assert (response.text, reward, tool.steps) == (f"{MARK} answer", 0.5, ["create", "execute", "release"])
    span = only_tool_span(instrumented)
    assert span.name == "execute_tool stateful"
    assert span.attributes["verl.tool.outcome"] == "succeeded"
    assert span.attributes["verl.tool.reward"] == 0.5
    assert MARK not in span.to_json()


@pytest.mark.parametrize("fails", ["create", "execute"])
def test_what_it_raises_becomes_a_text_and_is_told(instrumented, fails):
    response, *_ = call(Stateful(fails))
    assert response.text == f"Error executing tool 'stateful': {MARK} in {fails}"
    span = only_tool_span(instrumented)
    assert span.attributes["verl.tool.outcome"] == "failed"
    assert span.events[0].attributes["exception.type"] == "RuntimeError"
    assert MARK not in span.to_json()


def test_what_its_release_raises_reaches_the_loop(instrumented):
    with pytest.raises(RuntimeError, match=f"{MARK} in release"):
        call(Stateful("release"))
    assert only_tool_span(instrumented).attributes["verl.tool.outcome"] == "failed"


def test_a_plain_function_that_raises(instrumented):
    def run():
        raise KeyError(MARK)

    assert "Error executing tool 'plain'" in call(function(run))[0].text
    assert only_tool_span(instrumented).attributes["verl.tool.outcome"] == "failed"


def test_a_name_that_the_model_made_up(instrumented):
    assert "Unknown function" in call(function(lambda: "x"), name=f"{MARK}_tool")[0].text
    span = only_tool_span(instrumented)
    assert (span.name, span.attributes["verl.tool.outcome"]) == ("execute_tool", "unknown_tool")
    assert MARK not in span.to_json()


@pytest.mark.parametrize("arguments", ["{", "no JSON"])
def test_arguments_that_are_no_json(instrumented, arguments):
    assert "Invalid JSON" in call(function(lambda: "x"), arguments=arguments)[0].text
    assert only_tool_span(instrumented).attributes["verl.tool.outcome"] == "invalid_arguments"


def test_a_call_that_is_cancelled(instrumented):
    with pytest.raises(asyncio.TimeoutError):
        call(Stateful(), arguments=json.dumps({"seconds": 30}), timeout=0.1)
    assert only_tool_span(instrumented).attributes["verl.tool.outcome"] == "cancelled"


def test_a_loop_of_a_users_own_that_calls_the_tool_itself(instrumented):
    tool = function(lambda: "an answer")

    async def run():
        return await tool.call({})

    assert asyncio.run(run()) == "an answer"
    assert only_tool_span(instrumented).name == "execute_tool plain"


@pytest.mark.parametrize("mode", ["SPAN_ONLY", "EVENT_ONLY", "SPAN_AND_EVENT", "true"])
def test_content_goes_where_it_was_asked_for(instrumented, monkeypatch, mode):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", mode)
    call(Stateful(), arguments=json.dumps({"said": "by the model"}))
    attributes = only_tool_span(instrumented).attributes
    kept = {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"} & set(attributes)
    told = [
        attributes for name, attributes in instrumented.events() if name == "gen_ai.client.inference.operation.details"
    ]
    assert len(kept) == (0 if mode == "EVENT_ONLY" else 2)
    assert len(told) == (0 if mode == "SPAN_ONLY" else 2)
    if kept:
        assert attributes["gen_ai.tool.call.result"] == f"{MARK} answer"


def test_an_exception_says_what_it_says_where_content_is_captured(instrumented, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    call(Stateful("execute"))
    assert only_tool_span(instrumented).events[0].attributes["exception.message"] == f"{MARK} in execute"
