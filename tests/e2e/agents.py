"""Agent loops as they run on a CPU: overrides of verl's configuration."""

from pathlib import Path

from run import HERE, KIT

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
    f"{ROLLOUT}.calculate_log_probs=True",
)
PROMPT = "What is"
"""How every prompt of the kit begins."""
MARKS = (tools_marks.OUTPUT_MARK, tools_marks.ERROR_MARK, tools_marks.UNKNOWN_MARK, PROMPT)

_ENGINE = f"+{ROLLOUT}.engine_kwargs.sglang"
SGLANG = (
    f"{ROLLOUT}.name=sglang",
    f"{_ENGINE}.device=cpu",
    f"{_ENGINE}.attention_backend=torch_native",
    f"{_ENGINE}.sampling_backend=pytorch",
    f"{_ENGINE}.disable_overlap_schedule=True",
    f"{_ENGINE}.max_total_tokens=8192",
    f"{_ENGINE}.grammar_backend=none",
    f"{_ENGINE}.enable_memory_saver=False",
)
SGLANG_ENVIRONMENT = {
    "PYTHONPATH": f"{HERE / 'kit' / 'sglang_stand_ins'}:{KIT / 'sglang'}",
    "SGLANG_USE_CPU_ENGINE": "1",
}
