"""A run on a terminal while it goes on: what it does now, how far it is, its main curves."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

CURVES: Final = (
    "actor/entropy",
    "actor/grad_norm",
    "response_length/mean",
    "training/rollout_probs_diff_mean",
    "perf/throughput",
    "timing_s/step",
)
"""Keys shown below the reward."""
WIDTH: Final = 48
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_COLOURS: Final = {"running": "green", "finished": "blue", "failed": "red", "interrupted": "yellow", "vanished": "red"}
_MOST_PHASES: Final = 8


def picture(overview: Mapping[str, Any], curves: Sequence[Mapping[str, Any]], url: str) -> RenderableType:
    """All of it; `overview`, `curves`: as the API answers them."""
    run = overview["run"]
    parts: list[RenderableType] = [_title(run, url)]
    if overview["failure"]:
        parts.append(Text(failure(overview["failure"]), style="red"))
    parts += [
        Text.from_markup(f"[{'red' if one['severity'] == 'critical' else 'yellow'}]{escape(alert(one))}[/]")
        for one in overview["alerts"]
    ]
    if overview["phases_open"]:
        parts.append(_phases(overview["phases_open"]))
    if overview["progress"]:
        parts.append(Text(progress(overview["progress"])))
    if table := _curves(curves):
        parts.append(table)
    return Group(*parts)


def line(overview: Mapping[str, Any], curves: Sequence[Mapping[str, Any]]) -> str:
    """The same on one line, without what changes each second."""
    run = overview["run"]
    words = [run["status"], f"step {steps(run)}"]
    words += [f"{one['key']} {number(_last(one))}" for one in curves if _last(one) is not None]
    words += sorted({f"in {one['name']}" for one in overview["phases_open"]})
    words += [alert(one) for one in overview["alerts"]]
    if overview["failure"]:
        words.append(failure(overview["failure"]))
    return ", ".join(words)


def steps(run: Mapping[str, Any]) -> str:
    """The last step, of how many."""
    step = "-" if run["step"] is None else str(run["step"])
    return step if run["total_steps"] is None else f"{step} of {run['total_steps']}"


def progress(told: Mapping[str, Any]) -> str:
    """How far the rollout is."""
    what = "validation" if told["validation"] else "rollout"
    of = "" if told["expected"] is None else f" of {told['expected']}"
    words = [f"{what}: {told['done']}{of} done", f"{told['running']} running"]
    words += [f"{told['failed']} failed"] if told["failed"] else []
    words += [f"{duration(told['left_s'])} left"] if told["left_s"] is not None else []
    if told["oldest_s"] is not None:
        waits = f", waits for {told['waits_for']}" if told["waits_for"] else ""
        words.append(f"oldest {duration(told['oldest_s'])}{waits}")
    return ", ".join(words)


def failure(told: Mapping[str, Any]) -> str:
    """What went wrong first."""
    where = " ".join(str(told[name]) for name in ("role", "rank", "host") if told[name] is not None)
    places = [f"step {told['step']}" if told["step"] is not None else "", told["phase"] or "", where]
    at = ", ".join(one for one in places if one)
    message = f": {told['message'].splitlines()[0]}" if told["message"] else ""
    return f"{told['type']}{message}" + (f" ({at})" if at else "")


def alert(told: Mapping[str, Any]) -> str:
    """One that fires."""
    return f"{told['name']}: {told['summary']}"


def sparkline(values: Iterable[float | None], width: int = WIDTH) -> str:
    """A curve of blocks, a blank where there is no value; the least value is the lowest block."""
    given = list(values)
    if len(given) > width:
        given = [given[round(place * (len(given) - 1) / (width - 1))] for place in range(width)]
    known = [one for one in given if one is not None]
    if not known:
        return ""
    least, most = min(known), max(known)
    scale = (len(_BLOCKS) - 1) / (most - least) if most > least else 0.0
    return "".join(" " if one is None else _BLOCKS[round((one - least) * scale)] for one in given)


def number(value: float | None) -> str:
    """Four digits, however big it is."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 10**6:
        return str(int(value))
    return f"{value:.4g}"


def size(number_of_bytes: int) -> str:
    """In MiB below a GiB."""
    mebibytes = number_of_bytes / (1 << 20)
    return f"{mebibytes:.1f} MiB" if mebibytes < 1024 else f"{mebibytes / 1024:.1f} GiB"


def duration(seconds: float | None) -> str:
    """Seconds below two minutes, minutes below two hours."""
    if seconds is None:
        return "-"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _title(run: Mapping[str, Any], url: str) -> Text:
    name = " ".join(one for one in (run["project"], run["experiment"]) if one) or run["id"]
    colour = _COLOURS.get(run["status"], "white")
    words = [f"[bold]{escape(name)}[/bold]", f"[{colour}]{run['status']}[/{colour}]", f"step {steps(run)}"]
    about = [run[one] for one in ("algorithm", "model", "engine", "trainer") if run[one]]
    words += [f"[dim]{escape(', '.join(about))}[/dim]"] if about else []
    return Text.from_markup("  ".join([*words, f"[dim]{escape(url)}[/dim]"]))


def _phases(found: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("now in", "where", "for", "usually", box=None, padding=(0, 2, 0, 0))
    longest = sorted(found, key=lambda one: -one["open_s"])
    for one in longest[:_MOST_PHASES]:
        where = " ".join(str(one[name]) for name in ("role", "rank") if one[name] is not None) or "trainer"
        style = "red" if one["stuck"] else "yellow" if (one["p95_s"] or 1e99) < one["open_s"] else ""
        told = Text(duration(one["open_s"]) + (" stuck" if one["stuck"] else ""), style=style)
        table.add_row(escape(one["name"]), escape(where), told, duration(one["median_s"]))
    if len(found) > _MOST_PHASES:
        table.add_row("", f"{_MOST_PHASES} of {len(found)}", "", "")
    return table


def _curves(curves: Sequence[Mapping[str, Any]]) -> Table | None:
    shown = [one for one in curves if one["points"]]
    if not shown:
        return None
    table = Table("by step", "last", "", box=None, padding=(0, 2, 0, 0))
    for one in shown:
        unit = one["unit"].replace("{", "").replace("}", "").removeprefix("1")
        table.add_row(escape(one["key"]), f"{number(_last(one))} {unit}".strip(), sparkline(one["ys"]))
    return table


def _last(curve: Mapping[str, Any]) -> float | None:
    known = [one for one in curve["ys"] if one is not None]
    return known[-1] if known else None
