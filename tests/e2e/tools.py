"""Tools of a user's own, and a parser that reads calls of them out of what an untrained model writes.

What a tool says, and what it raises, has a mark, to be looked for where no content may be.
"""

import json
import subprocess
import sys
from pathlib import Path

from verl.experimental.agent_loop.tool_parser import FunctionCall, ToolParser
from verl.tools.function_tool import function_tool

sys.path.insert(0, str(Path(__file__).parent))  # verl runs this file by its path

from tools_marks import ERROR_MARK, OUTPUT_MARK, UNKNOWN_MARK


@function_tool
def count_words(text: str) -> str:
    """Count words, in a process of its own.

    Args:
        text: What to count in.
    """
    counted = subprocess.run(["wc", "-w"], input=text, capture_output=True, text=True, check=True)
    return f"{OUTPUT_MARK} {counted.stdout.strip()}"


@function_tool
def broken(text: str) -> str:
    """Fail.

    Args:
        text: Anything.
    """
    raise ValueError(f"{ERROR_MARK} {text}")


GOOD = json.dumps({"text": "one two three"})
CALLS = (
    None,
    FunctionCall(name="count_words", arguments=GOOD, tool_call_id="first"),
    FunctionCall(name="broken", arguments=GOOD),
    FunctionCall(name=UNKNOWN_MARK, arguments=GOOD),
    FunctionCall(name="count_words", arguments="no JSON"),
)


@ToolParser.register("drawn")
class DrawnToolParser(ToolParser):
    """A call for each answer, drawn by its tokens."""

    @property
    def stop_token_ids(self):
        """Every eighth token ends a turn, since the model knows no end."""
        return list(range(3, 512, 8))

    async def extract_tool_calls(self, responses_ids, tools=None):
        """(text, calls)."""
        call = CALLS[sum(responses_ids) % len(CALLS)]
        return self.tokenizer.decode(responses_ids), [call] if call is not None else []
