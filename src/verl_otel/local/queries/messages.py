"""What was said, where it was captured: the prompt, the answers, what tools got and gave."""

import json
from typing import Any, Final

from verl_otel import semconv
from verl_otel.local.queries.reading import Cursor, NotThereError, Row, number, path, rows

MOST_SPANS: Final = 2000
MOST_TOKENS: Final = 16_384

_SPANS: Final = """
    SELECT span, parent, name, start, attributes ->> $input AS input, attributes ->> $output AS output,
        attributes ->> $arguments AS arguments, attributes ->> $result AS result
    FROM spans WHERE trace = $trace ORDER BY start LIMIT $most
"""
_EVENTS: Final = """
    SELECT span, attributes ->> $input AS input, attributes ->> $output AS output,
        attributes ->> $arguments AS arguments, attributes ->> $result AS result
    FROM events WHERE trace = $trace AND name = $name ORDER BY time LIMIT $most
"""
_MISMATCH: Final = """
    SELECT (attributes -> $tokens)::DOUBLE[] AS tokens FROM events
    WHERE trace = $trace AND name = $name AND (attributes -> $tokens) IS NOT NULL ORDER BY time DESC LIMIT 1
"""


def messages(cursor: Cursor, trace: str, span: str) -> dict[str, Any]:
    """Of a span and all below it, in the order it was said; empty where nothing was captured.

    `tokens`: how far engine and trainer are apart on each token of a trajectory, where that was told; their text is
    told nowhere. Raises `NotThereError`.
    """
    asked = {
        "trace": trace,
        "most": MOST_SPANS,
        "input": path(semconv.GEN_AI_INPUT_MESSAGES),
        "output": path(semconv.GEN_AI_OUTPUT_MESSAGES),
        "arguments": path(semconv.GEN_AI_TOOL_ARGUMENTS),
        "result": path(semconv.GEN_AI_TOOL_RESULT),
    }
    found = rows(cursor, _SPANS, asked)
    wanted = _below(found, span)
    if not wanted:
        raise NotThereError(f"there is no span {span!r} in trace {trace!r}")
    told: dict[str, Row] = {}
    for event in rows(cursor, _EVENTS, {**asked, "name": semconv.EVENT_MESSAGES}):
        told[event["span"]] = {**told.get(event["span"], {}), **{k: v for k, v in event.items() if v is not None}}
    said = [one for row in wanted for one in _said(row, told.get(row["span"], {}))]
    return {"messages": said, "tokens": _tokens(cursor, trace)}


def _below(found: list[Row], span: str) -> list[Row]:
    """The span and what is below it, by when it began; a parent begins before its children."""
    inside = {span}
    wanted = []
    for one in found:
        if one["span"] in inside or one["parent"] in inside:
            inside.add(one["span"])
            wanted.append(one)
    return wanted if any(one["span"] == span for one in wanted) else []


def _said(row: Row, event: Row) -> list[dict[str, str]]:
    """On the span, in the event beside it, or both, as the user asked."""
    said = [*_read(row["input"] or event.get("input")), *_read(row["output"] or event.get("output"))]
    if (arguments := row["arguments"] or event.get("arguments")) is not None:
        said.append({"role": "tool call", "text": f"{row['name'].removeprefix(semconv.SPAN_TOOL).strip()} {arguments}"})
    if (result := row["result"] or event.get("result")) is not None:
        said.append({"role": "tool", "text": result})
    return said


def _read(text: str | None) -> list[dict[str, str]]:
    """OTel's shape: roles with parts; what has another shape is shown as it is."""
    try:
        shaped = json.loads(text or "[]")
        return [{"role": str(one["role"]), "text": "".join(map(_part, one["parts"]))} for one in shaped]
    except (ValueError, TypeError, KeyError):
        return [{"role": "", "text": text or ""}]


def _part(part: dict[str, Any]) -> str:
    return str(part["content"]) if part.get("type") == "text" else json.dumps(part, ensure_ascii=False)


def _tokens(cursor: Cursor, trace: str) -> list[dict[str, Any]] | None:
    asked = {"trace": trace, "name": semconv.EVENT_MISMATCH, "tokens": path(semconv.MISMATCH_TOKENS)}
    found = rows(cursor, _MISMATCH, asked)
    if not found:
        return None
    return [{"text": "", "difference": number(one)} for one in found[0]["tokens"][:MOST_TOKENS]]
