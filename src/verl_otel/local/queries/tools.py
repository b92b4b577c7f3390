"""Which tool or reward fails, or drags?"""

from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.reading import Cursor, path, rows

# An error's kind is its attribute, else what its status begins with.
_CALLS: Final = """
    WITH calls AS (
        SELECT CASE WHEN name = $reward THEN 'reward' ELSE 'tool' END AS kind,
            coalesce(attributes ->> CASE WHEN name = $reward THEN $function ELSE $tool END, '(unnamed)') AS called,
            ("end" - start) / 1e9 AS seconds, trace,
            error OR coalesce(attributes ->> $outcome, 'succeeded') <> 'succeeded' AS failed,
            coalesce(attributes ->> $kind, nullif(split_part(coalesce(message, ''), ':', 1), ''),
                attributes ->> $outcome) AS why
        FROM spans WHERE name = $reward OR name = $execute OR starts_with(name, $execute || ' ')
    )
    SELECT kind, called AS name, count(*) AS calls, count(*) FILTER (failed) AS errors,
        median(seconds) AS p50_s, quantile_cont(seconds, 0.95) AS p95_s, max(seconds) AS max_s,
        mode(why) FILTER (failed) AS top_error,
        coalesce(any_value(trace) FILTER (failed), arg_max(trace, seconds)) AS example
    FROM calls GROUP BY ALL ORDER BY errors DESC, sum(seconds) DESC
"""


def tools(cursor: Cursor) -> dict[str, Any]:
    """Tools and rewards by name; `example`: a trace with an error, else with the slowest call."""
    asked = {
        "reward": semconv.SPAN_REWARD,
        "execute": semconv.SPAN_TOOL,
        "function": path(semconv.REWARD_FUNCTION),
        "tool": path(semconv.GEN_AI_TOOL_NAME),
        "outcome": path(semconv.TOOL_OUTCOME),
        "kind": path(semconv.ERROR_TYPE),
    }
    return {"rows": rows(cursor, _CALLS, asked)}
