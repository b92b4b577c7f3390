"""The API's questions: what each path asks of a run's database, with which parameters."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from verl_otel.local import profiles
from verl_otel.local.parameters import Parameters
from verl_otel.local.queries.batch import batch
from verl_otel.local.queries.configuration import configuration
from verl_otel.local.queries.curves import curves, keys, table
from verl_otel.local.queries.engine import engine
from verl_otel.local.queries.groups import groups, signal
from verl_otel.local.queries.hardware import hardware
from verl_otel.local.queries.marks import marks
from verl_otel.local.queries.messages import messages
from verl_otel.local.queries.overview import overview
from verl_otel.local.queries.pipeline import pipeline
from verl_otel.local.queries.reading import Cursor, ParameterError
from verl_otel.local.queries.steps import BINS, steps
from verl_otel.local.queries.stragglers import stragglers
from verl_otel.local.queries.timeline import MOST_ROWS, timeline
from verl_otel.local.queries.tools import tools
from verl_otel.local.queries.traces import trace
from verl_otel.local.queries.trajectories import trajectories

Run = Mapping[str, Any]
Question = Callable[[Cursor, Parameters, Run, Mapping[str, str]], dict[str, Any]]
"""Of a run as the list has it; the last are the names in the path."""

_WIDTH: Final = 1200


def _step(asked: Parameters) -> int:
    step = asked.whole("step")
    if step is None:
        raise ParameterError("step is missing: say which one is meant")
    return step


def _keys(asked: Parameters) -> list[str]:
    found = list(asked.texts("key"))
    if not found:
        raise ParameterError("key is missing: name at least one")
    return found


def _panels(ask: Callable[..., dict[str, Any]]) -> Question:
    return lambda cursor, asked, run, names: ask(
        cursor, asked.number("from"), asked.number("to"), asked.count("width", _WIDTH)
    )


QUESTIONS: Final[Mapping[str, Question]] = {
    "config": lambda cursor, asked, run, names: configuration(cursor),
    "keys": lambda cursor, asked, run, names: keys(cursor),
    "curves": lambda cursor, asked, run, names: curves(
        cursor,
        _keys(asked),
        asked.text("x", "step"),
        asked.number("from"),
        asked.number("to"),
        asked.count("width", _WIDTH),
    ),
    "marks": lambda cursor, asked, run, names: marks(cursor),
    "steps": lambda cursor, asked, run, names: steps(
        cursor, asked.whole("from"), asked.whole("to"), asked.count("bins", BINS)
    ),
    "timeline": lambda cursor, asked, run, names: timeline(
        cursor,
        asked.number("from"),
        asked.number("to"),
        asked.count("width", _WIDTH),
        asked.count("rows", MOST_ROWS),
        asked.text("filter"),
        asked.text("order", "name"),
        by_weights=asked.text("colour") == "weights",
    ),
    "stragglers": lambda cursor, asked, run, names: stragglers(
        cursor, asked.whole("from"), asked.whole("to"), asked.text("phase") or None
    ),
    "batch": lambda cursor, asked, run, names: batch(
        cursor, _step(asked), asked.text("sort", "end"), asked.count("limit", 1024)
    ),
    "trajectories": lambda cursor, asked, run, names: trajectories(
        cursor,
        asked.whole("step"),
        asked.flag("validation"),
        asked.text("uid") or None,
        asked.text("search"),
        asked.text("sort", "start"),
        asked.flag("desc") or False,
        asked.count("limit", 100),
        asked.count("offset", 0),
    ),
    "groups": lambda cursor, asked, run, names: groups(cursor, _step(asked)),
    "signal": lambda cursor, asked, run, names: signal(cursor),
    "tools": lambda cursor, asked, run, names: tools(cursor),
    "messages/{trace}/{span}": lambda cursor, asked, run, names: messages(cursor, names["trace"], names["span"]),
    "trace/{trace}": lambda cursor, asked, run, names: trace(
        cursor, names["trace"], skew=asked.flag("skew") is not False, folded=asked.flag("fold") is not False
    ),
    "engine": _panels(engine),
    "hardware": _panels(hardware),
    "pipeline": _panels(pipeline),
    "profiles": lambda cursor, asked, run, names: {"files": profiles.found(cursor)},
    # The last: a run's id may hold slashes, and this is what is left.
    "": lambda cursor, asked, run, names: overview(cursor, run, time.time_ns()),
}


def write_csv(cursor: Cursor, asked: Parameters, path: Path) -> None:
    """The curves of some keys, as they were logged, into a file. Raises `ParameterError`, `OSError`."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(table(cursor, _keys(asked)))
