"""What the model did: trajectories to be sorted and searched, and how rewards, lengths and times are spread."""

import math
import re
from typing import Any, Final

from verl_otel.local.queries.reading import MILLISECOND, Cursor, ParameterError, Row, decoded, row, rows

MOST: Final = 1000
BINS: Final = 30
SORTS: Final = (
    "start",
    "seconds",
    "reward",
    "tokens",
    "prompt_tokens",
    "turns",
    "model_calls",
    "tool_calls",
    "step",
    "session",
    "staleness",
    "name",
    "uid",
    "outcome",
    "stop_reason",
)
_SPREAD: Final = {"reward": "reward", "tokens": "response_tokens", "seconds": "seconds", "turns": "turns"}
_TEXTS: Final = ("name", "uid", "trace", "outcome", "stop")
_NUMBERS: Final = ("reward", "tokens", "seconds", "turns", "step", "session", "model_calls", "tool_calls")

# Kept for the length of the request: rows, their number and their spread are all of the same trajectories.
_CHOOSE: Final = """
    CREATE OR REPLACE TEMP TABLE chosen_trajectories AS
    WITH found AS (
        SELECT t.*, host, ("end" - start) / 1e9 AS seconds, t.step - 1 - weights_oldest AS staleness
        FROM trajectories t LEFT JOIN processes p ON p.process = t.process
        WHERE ($step IS NULL OR step = $step) AND ($validation IS NULL OR coalesce(validation, false) = $validation)
            AND ($uid IS NULL OR uid = $uid)
    )
    SELECT * FROM found
    WHERE list_bool_and([true] || [
        contains(lower(concat_ws(' ', name, uid, trace, outcome, stop_reason)), word) FOR word IN $words::VARCHAR[]])
    AND list_bool_and([true] || [
        contains(lower(coalesce(CASE term.name WHEN 'outcome' THEN outcome WHEN 'stop' THEN stop_reason
            WHEN 'uid' THEN uid WHEN 'trace' THEN trace ELSE name END, '')), term.value)
        FOR term IN $terms::STRUCT(name VARCHAR, value VARCHAR)[]])
    AND list_bool_and([true] || [
        coalesce(CASE b.name WHEN 'reward' THEN reward WHEN 'tokens' THEN response_tokens WHEN 'seconds' THEN seconds
            WHEN 'turns' THEN turns WHEN 'step' THEN step WHEN 'session' THEN session
            WHEN 'model_calls' THEN model_calls WHEN 'tool_calls' THEN tool_calls END BETWEEN b.low AND b.high, false)
        FOR b IN $bounds::STRUCT(name VARCHAR, low DOUBLE, high DOUBLE)[]])
"""
_ROWS: Final = """
    SELECT * FROM chosen_trajectories
    ORDER BY $sign * CASE $sort WHEN 'start' THEN start::DOUBLE WHEN 'seconds' THEN seconds WHEN 'reward' THEN reward
            WHEN 'tokens' THEN response_tokens WHEN 'prompt_tokens' THEN prompt_tokens WHEN 'turns' THEN turns
            WHEN 'model_calls' THEN model_calls WHEN 'tool_calls' THEN tool_calls WHEN 'step' THEN step
            WHEN 'session' THEN session WHEN 'staleness' THEN staleness
            -- By rank, so that text can be turned round as a number can.
            WHEN 'name' THEN dense_rank() OVER (ORDER BY name) WHEN 'uid' THEN dense_rank() OVER (ORDER BY uid)
            WHEN 'outcome' THEN dense_rank() OVER (ORDER BY outcome)
            WHEN 'stop_reason' THEN dense_rank() OVER (ORDER BY stop_reason) END NULLS LAST, start, trace
    LIMIT $limit OFFSET $offset
"""
_TOTAL: Final = "SELECT count(*) AS total FROM chosen_trajectories"
_RANGE: Final = """
    WITH one AS (
        SELECT CASE $what WHEN 'reward' THEN reward WHEN 'tokens' THEN response_tokens WHEN 'seconds' THEN seconds
            ELSE turns END AS value FROM chosen_trajectories
    ),
    known AS (SELECT value FROM one WHERE value IS NOT NULL AND isfinite(value)),
    size AS (SELECT min(value) AS low, max(value) AS high FROM known)
    SELECT low, high, CASE WHEN high > low THEN least(floor((value - low) / (high - low) * $bins), $bins - 1)
        ELSE 0 END::INTEGER AS bin, count(*) AS many
    FROM known, size GROUP BY ALL
"""


def trajectories(
    cursor: Cursor,
    step: int | None = None,
    validation: bool | None = None,
    uid: str | None = None,
    search: str = "",
    sort: str = "start",
    descending: bool = False,
    limit: int = 100,
    offset: int = 0,
) -> dict[str, Any]:
    """A page of them. `search`: words, `outcome:failed`, `reward<0.5`, all of which must hold.

    Raises `ParameterError`.
    """
    if sort not in SORTS:
        raise ParameterError(f"sort is {sort!r}: it may be {', '.join(SORTS)}")
    if not 0 <= limit <= MOST or offset < 0:
        raise ParameterError(f"limit may be 0 to {MOST}, and offset 0 or more")
    asked = {"step": step, "validation": validation, "uid": uid or None, **_parsed(search)}
    cursor.execute(_CHOOSE, asked)
    page = {"sort": sort, "sign": -1 if descending else 1, "limit": limit, "offset": offset}
    return {
        "total": (row(cursor, _TOTAL) or {})["total"],
        "rows": [_answer(one) for one in rows(cursor, _ROWS, page)],
        "distributions": {what: _histogram(cursor, what) for what in _SPREAD},
    }


def _parsed(search: str) -> dict[str, Any]:
    words, terms, bounds = [], [], []
    for word in search.split():
        if compared := re.fullmatch(r"([a-z]\w*)(<=|>=|<|>|=)(-?\d+(?:\.\d+)?)", word):
            bounds.append(_bound(*compared.groups()))
        elif (named := word.partition(":"))[1] and named[0] in _TEXTS:
            terms.append({"name": named[0], "value": named[2].lower()})
        else:
            words.append(word.lower())
    return {"words": words, "terms": terms, "bounds": bounds}


def _bound(name: str, sign: str, text: str) -> dict[str, Any]:
    if name not in _NUMBERS:
        raise ParameterError(f"a search can't compare {name!r}: it may be {', '.join(_NUMBERS)}")
    value, low, high = float(text), -math.inf, math.inf
    if sign in (">", ">=", "="):
        low = value if "=" in sign else math.nextafter(value, math.inf)
    if sign in ("<", "<=", "="):
        high = value if "=" in sign else math.nextafter(value, -math.inf)
    return {"name": name, "low": low, "high": high}


_KEPT: Final = (
    "trace",
    "span",
    "name",
    "step",
    "uid",
    "session",
    "seconds",
    "outcome",
    "reward",
    "prompt_tokens",
    "response_tokens",
    "turns",
    "model_calls",
    "tool_calls",
    "stop_reason",
    "weights_oldest",
    "weights_newest",
    "host",
)


def _answer(one: Row) -> Row:
    return {
        **{name: one[name] for name in _KEPT},
        "validation": bool(one["validation"]),
        "start": one["start"] / MILLISECOND,
        "parts": decoded(one["parts"]),
    }


def _histogram(cursor: Cursor, what: str) -> dict[str, Any] | None:
    """Bins of equal width, as many bounds as counts and one; None where nobody told."""
    found = rows(cursor, _RANGE, {"what": what, "bins": BINS})
    if not found:
        return None
    low, high = found[0]["low"], found[0]["high"]
    if low == high:
        return {"bounds": [low, high], "counts": [sum(one["many"] for one in found)]}
    counts = [0] * BINS
    for one in found:
        counts[one["bin"]] = one["many"]
    return {"bounds": [low + (high - low) * place / BINS for place in range(BINS + 1)], "counts": counts}
