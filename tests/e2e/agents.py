"""Agent loops as they run on a CPU: overrides of verl's configuration."""

from pathlib import Path

from e2e import tools_marks

ROLLOUT = "actor_rollout_ref.rollout"
TOOLS = (
    f"{ROLLOUT}.agent.default_agent_loop=tool_agent",
    f"{ROLLOUT}.multi_turn.enable=True",
    f"{ROLLOUT}.multi_turn.function_tool_path={Path(__file__).parent / 'tools.py'}",
    f"{ROLLOUT}.multi_turn.format=drawn",
    f"{ROLLOUT}.multi_turn.max_assistant_turns=3",
    "data.max_response_length=128",
    f"{ROLLOUT}.max_model_len=256",
)
PROMPT = "What is"
"""How every prompt of the kit begins."""
MARKS = (tools_marks.OUTPUT_MARK, tools_marks.ERROR_MARK, tools_marks.UNKNOWN_MARK, PROMPT)
