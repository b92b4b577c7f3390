"""The page's questions to large runs: how long an answer takes, on the threads and memory that the backend has.

One database has 100,000 steps with 20 keys, one a million spans of 1,024 ranks, one 500,000 trajectories, one 64
replicas with a week of points. Each question is asked several times; the median is told. The files are made by SQL.
Two of them are then served, and the page's main questions put through HTTP (`local_page`).
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import local_rows
from benchmarks import local_page
from benchmarks.measuring import Row, judge, median, seconds
from benchmarks.telling import Tell
from local_rows import Rows, ms
from verl_otel.local.queries.alerts import firing
from verl_otel.local.queries.batch import batch
from verl_otel.local.queries.curves import curves, keys
from verl_otel.local.queries.engine import engine
from verl_otel.local.queries.groups import groups, signal
from verl_otel.local.queries.hardware import hardware
from verl_otel.local.queries.marks import marks
from verl_otel.local.queries.overview import overview
from verl_otel.local.queries.pipeline import pipeline
from verl_otel.local.queries.steps import steps
from verl_otel.local.queries.stragglers import stragglers
from verl_otel.local.queries.timeline import timeline
from verl_otel.local.queries.tools import tools
from verl_otel.local.queries.traces import trace
from verl_otel.local.queries.trajectories import trajectories
from verl_otel.local.store.folder import Folder

BUDGET: Final = local_page.BUDGET
TIMES: Final = 5
# As the store opens a run's database.
_CONFIG: Final = {"threads": "2", "memory_limit": "256MB"}
_STEPS: Final = 100_000
_SPANS: Final = 1_000_000
_LANES: Final = 1024
_KEYS: Final = [f"k{number}/mean" for number in range(20)]

Questions = list[tuple[str, Callable[[Any], Any]]]


def _steps() -> Questions:
    run = {"id": "r", "status": "finished", "updated": ms(_STEPS * 10)}
    return [
        ("keys of 2,000,000 scalars", keys),
        ("a curve of 100,000 steps", lambda cursor: curves(cursor, _KEYS[:1])),
        ("20 curves of 100,000 steps", lambda cursor: curves(cursor, _KEYS)),
        ("a curve by time", lambda cursor: curves(cursor, _KEYS[:1], "time")),
        ("phases of 100,000 steps", steps),
        ("phases of 400 of them", lambda cursor: steps(cursor, 50_000, 50_399)),
        ("marks", marks),
        ("overview", lambda cursor: overview(cursor, run, local_rows.at(_STEPS * 10))),
        ("trace of a step", lambda cursor: trace(cursor, "t50000")),
    ]


def _lanes() -> Questions:
    return [
        ("timeline of 1,000,000 spans, 1,024 lanes", timeline),
        ("the same, the 16 most idle", lambda cursor: timeline(cursor, most=16, order="idle")),
        ("a window of it, as spans", lambda cursor: timeline(cursor, ms(5000), ms(5020), text="rank:0-63")),
        ("stragglers of 1,024 ranks", stragglers),
        ("trace of 6,144 spans, folded", lambda cursor: trace(cursor, "t50")),
    ]


def _trajectories() -> Questions:
    return [
        ("500,000 trajectories, a page by reward", lambda cursor: trajectories(cursor, sort="reward")),
        ("the same, searched", lambda cursor: trajectories(cursor, search="reward>0.4 u12")),
        ("trajectories of a step", lambda cursor: trajectories(cursor, step=500)),
        ("batch of a step", lambda cursor: batch(cursor, 500)),
        ("groups of a step", lambda cursor: groups(cursor, 500)),
        ("groups by step", signal),
        ("tools", tools),
    ]


def _replicas() -> Questions:
    return [
        ("engine, 64 replicas", engine),
        ("hardware", hardware),
        ("pipeline", pipeline),
        ("alerts", lambda cursor: firing(cursor, local_rows.at(10_000 * 15))),
    ]


_RUNS: Final[dict[str, tuple[Callable[[Rows], None], Callable[[], Questions]]]] = {
    "steps": (lambda rows: local_rows.many_steps(rows, _STEPS), _steps),
    "lanes": (lambda rows: local_rows.many_lanes(rows, _SPANS, _LANES), _lanes),
    "trajectories": (lambda rows: local_rows.many_trajectories(rows, 1000), _trajectories),
    "replicas": (lambda rows: local_rows.many_points(rows, 64, 10_000), _replicas),
}


_SERVED: Final[dict[str, float]] = {"steps": _STEPS * 10.0, "lanes": 10_000.0}
"""Seconds that those take which are asked through HTTP, too."""
_QUESTIONS: Final = {
    "timeline of 1,000,000 spans, 1,024 lanes": ("lanes", "timeline", {"width": local_page.WIDTH}),
    "a curve of 100,000 steps": ("steps", "curves", {"key": _KEYS[:1], "width": local_page.WIDTH}),
    "20 curves of 100,000 steps": ("steps", "curves", {"key": _KEYS, "width": local_page.WIDTH}),
    "overview of 100,000 steps": ("steps", "", {}),
}


def measure(tell: Tell, *, times: int = TIMES) -> Iterator[Row]:
    """Rows of the benchmark `local_queries`."""
    with tempfile.TemporaryDirectory(prefix="vo-queries-") as made:
        folder = Folder(Path(made))
        folder.make()
        for number, (name, (make, questions)) in enumerate(_RUNS.items()):
            tell(number, len(_RUNS) + 1)
            rows = Rows(folder.database(name), **_CONFIG)
            make(rows)
            if name in _SERVED:
                local_page.finish(rows, folder, name, _SERVED[name])
            rows.connection.execute("CHECKPOINT")
            for what, ask in questions():
                yield _measure(rows, what, ask, times)
            rows.connection.close()
            if name not in _SERVED:
                folder.database(name).unlink()
        yield from local_page.answers(folder, _QUESTIONS, times)
    tell(len(_RUNS), len(_RUNS) + 1)
    yield from local_page.first_pages(times)


def _measure(rows: Rows, what: str, ask: Callable[[Any], Any], times: int) -> Row:
    found = []
    for _ in range(times):
        with rows.cursor() as cursor:
            begin = perf_counter()
            ask(cursor)
            found.append(perf_counter() - begin)
    taken = median(found)
    note = f"first {seconds(found[0])}"
    return Row("local_queries", what, taken, " s", BUDGET, note, judge(taken, BUDGET))
