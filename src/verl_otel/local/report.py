"""A run as one HTML file that needs no server and no network: the page, and the answers it would have asked for."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from verl_otel import semconv
from verl_otel.local.client import Client, run_path
from verl_otel.local.errors import LocalError

BUDGET: Final = 4_500_000
"""Bytes of answers; what comes last is left out first."""
WIDTH: Final = 800
_KEYS_AT_ONCE: Final = 50
_STEPS: Final = 2000
_LANES: Final = 128
_ROWS: Final = 256
_TRACES: Final = 8
"""Trajectories of a chosen step whose traces are held: the worst and the longest."""
_SPANS: Final = 400
"""Spans of a trace that are held."""
_DIGITS: Final = 6
_CONTENT: Final = frozenset(
    {
        semconv.GEN_AI_INPUT_MESSAGES,
        semconv.GEN_AI_OUTPUT_MESSAGES,
        semconv.GEN_AI_TOOL_ARGUMENTS,
        semconv.GEN_AI_TOOL_RESULT,
    }
)
_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_DOCUMENT: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title} - verl-otel</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="page"></div>
<noscript>This report draws with JavaScript.</noscript>
<script type="text/plain" id="licences">{licences}</script>
<script>
window.__answers = {{
{answers}
}};
if (!location.hash) location.hash = {first};
</script>
<script>{script}</script>
</body>
</html>
"""

Answers = dict[str, Any]


def write(client: Client, run: str, to: Path, *, content: bool = False, say: Callable[[str], None]) -> int:
    """Write the report of a run; its bytes. `content`: with prompts and answers, where they were captured.

    `say` is told what there was no room for. Raises `LocalError`, `OSError`.
    """
    script, style, licences = _page()
    answers: Answers = {}
    size, left_out = 0, []
    for url, answer in gathered(client, run, content=content):
        text = embedded(answer)
        if size + len(text) > BUDGET:
            left_out.append(url.rpartition("/")[2])
            continue
        answers[url] = text
        size += len(text)
    if left_out:
        say(f"no room for {len(left_out)} of {len(left_out) + len(answers)} answers: {', '.join(left_out[:5])}")
    told = ",\n".join(f"{embedded(url)}: {text}" for url, text in answers.items())
    document = _DOCUMENT.format(
        policy=escape(_POLICY),
        title=escape(run),
        style=style.replace("</style", "<\\/style"),
        licences=_inline(licences),
        answers=told,
        first=embedded(f"#/overview/{quote(run, safe='')}"),
        script=_inline(script),
    )
    to.write_text(document, encoding="utf-8")
    return to.stat().st_size


def gathered(client: Client, run: str, *, content: bool = False) -> Iterator[tuple[str, Any]]:
    """URL and answer of all that a report holds, what matters most first. Raises `LocalError`."""
    overview = client.run(run)
    yield "/api/runs", {"runs": [overview["run"]]}
    yield _url(run), overview
    keys = client.run(run, "keys")
    yield _url(run, "keys"), keys
    names = [one["key"] for one in keys["keys"]]
    by_step = _curves(client, run, names, "step")
    yield _url(run, "curves", x="step"), by_step
    for path, parameters in (
        ("config", {}),
        ("steps", {"bins": _STEPS}),
        ("marks", {}),
        ("signal", {}),
        ("tools", {}),
        ("timeline", {"width": WIDTH, "rows": _LANES}),
        ("stragglers", {}),
        ("profiles", {}),
    ):
        yield _url(run, path), client.run(run, path, **parameters)
    for path in ("engine", "hardware", "pipeline"):
        yield _url(run, path), client.run(run, path, width=WIDTH // 2)
    trajectories = client.run(run, "trajectories", limit=_ROWS)
    yield _url(run, "trajectories"), trajectories
    rewarded = (overview["run"]["reward"] or {}).get("key")
    reward: Mapping[str, Any] = next((one for one in by_step["curves"] if one["key"] == rewarded), {"xs": [], "ys": []})
    for step in chosen_steps(client.run(run, "signal")["steps"], reward):
        yield from _step(client, run, step, content=content)
    for axis in ("elapsed", "time"):
        yield _url(run, "curves", x=axis), _curves(client, run, names, axis)


def chosen_steps(known: list[int], reward: Mapping[str, Any]) -> list[int]:
    """The last, best and worst step of those whose trajectories are known; `reward`: its curve by step."""
    if not known:
        return []
    rewards = {
        step: value
        for step, value in zip(reward["xs"], reward["ys"], strict=True)
        if step in known and value is not None
    }
    found = [max(known)]
    if rewards:
        found += [max(rewards, key=lambda step: rewards[step]), min(rewards, key=lambda step: rewards[step])]
    return list(dict.fromkeys(int(step) for step in found))


def _step(client: Client, run: str, step: int, *, content: bool) -> Iterator[tuple[str, Any]]:
    batch = client.run(run, "batch", step=step, limit=_ROWS)
    yield _url(run, "batch", step=step), batch
    yield _url(run, "groups", step=step), client.run(run, "groups", step=step)
    rows = client.run(run, "trajectories", step=step, limit=_ROWS)
    yield _url(run, "trajectories", step=step), rows
    steps = client.run(run, "steps", **{"from": step, "to": step})
    traces = [trace for trace in steps["trace"] if trace]
    by_reward = sorted(rows["rows"], key=lambda one: math.inf if one["reward"] is None else one["reward"])
    by_time = sorted(rows["rows"], key=lambda one: -one["seconds"])
    traces += [one["trace"] for one in (*by_reward[: _TRACES // 2], *by_time[: _TRACES // 2])]
    for trace in dict.fromkeys(traces):
        answer = client.run(run, f"trace/{trace}")
        answer["truncated"] = answer["truncated"] or len(answer["spans"]) > _SPANS
        answer["spans"] = [_without_content(one, content=content) for one in answer["spans"][:_SPANS]]
        yield _url(run, f"trace/{trace}"), answer
    if content:
        for one in by_reward[: _TRACES // 2]:
            path = f"messages/{one['trace']}/{one['span']}"
            yield _url(run, path), client.run(run, path)


def _without_content(span: dict[str, Any], *, content: bool) -> dict[str, Any]:
    """A report is passed on: what was said stays here unless it is asked for."""
    if content:
        return span
    events = [{**one, "attributes": _cut(one["attributes"])} for one in span["events"]]
    return {**span, "attributes": _cut(span["attributes"]), "events": events}


def _cut(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if key not in _CONTENT}


def _curves(client: Client, run: str, keys: list[str], axis: str) -> dict[str, Any]:
    """Of all keys in one answer; the page takes those it shows."""
    whole: dict[str, Any] = {"x": axis, "curves": [], "rev": 0}
    for place in range(0, len(keys), _KEYS_AT_ONCE):
        part = client.run(run, "curves", key=keys[place : place + _KEYS_AT_ONCE], x=axis, width=WIDTH)
        whole["curves"] += part["curves"]
        whole["rev"] = part.get("rev", 0)
    return whole


def embedded(value: Any) -> str:
    """JSON that may stand in a script: no sign in it ends the script, or begins a comment."""
    text = json.dumps(_rounded(value), separators=(",", ":"), ensure_ascii=False)
    for sign, code in (("<", "\\u003c"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029")):
        text = text.replace(sign, code)
    return text


def _rounded(value: Any) -> Any:
    """Numbers as exact as a picture needs; whole ones, as times in ms are, stay exact to the ms."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        if value.is_integer():
            return int(value)
        return round(value, 1) if abs(value) > 10**9 else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return value


def _url(run: str, path: str = "", **parameters: Any) -> str:
    """As the page asks: parameters by name."""
    query = urlencode(sorted(parameters.items()))
    return f"/api/{run_path(run, path)}" + (f"?{query}" if query else "")


def _page() -> tuple[str, str, str]:
    """The page's script and style, and the licences of what is in them. Raises `LocalError`."""
    folder = files("verl_otel.local").joinpath("page")
    try:
        manifest = json.loads(folder.joinpath("manifest.json").read_text())
        script, style = (folder.joinpath(manifest[name]).read_text(encoding="utf-8") for name in ("script", "style"))
        licences = folder.joinpath("assets").joinpath("licenses.txt").read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError) as error:
        raise LocalError("the page isn't built, so there is nothing to draw with: `python page/build.py`") from error
    return script, style, licences


def _inline(script: str) -> str:
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
