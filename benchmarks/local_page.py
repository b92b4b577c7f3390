"""What the page asks first, through HTTP, of a backend in a process of its own: large runs, and many stored ones.

A client as a browser is: one connection, packed answers, unpacked and parsed. The first page is index, script and
style, the list of runs, and what the overview of the newest asks, one after the other, of a backend that has just
started: no database is open. The stored runs are one made run under many names (hard links).
"""

import dataclasses
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import requests

from benchmarks.measuring import Row, judge, median, seconds
from local_rows import Rows, at
from verl_otel.local import backend, fleet
from verl_otel.local.client import Client, run_path
from verl_otel.local.fleet import Fleet
from verl_otel.local.server import PAGE
from verl_otel.local.store import migrations
from verl_otel.local.store.folder import Folder
from verl_otel.local.store.store import Store
from verl_otel.local.store.summary import Summary

BUDGET: Final = 1.0
"""Seconds for an answer, and for the first page."""
COUNTS: Final = (1, 100, 1000)
WIDTH: Final = 1800
"""Columns that the page asks for on a screen of 1,920 pixels."""
_MADE: Final = Fleet(ranks=64, replicas=8, agents=4, steps=4, history=196, groups=16)
_HOUR: Final = 3600 * 1_000_000_000
_PATIENCE: Final = 120.0


def finish(rows: Rows, folder: Folder, run: str, length: float) -> None:
    """Make rows a run that a backend can serve: what else the store writes of one that has ended after so long (s)."""
    told = [("run_id", run), ("schema_version", str(migrations.VERSION))]
    rows.connection.executemany("INSERT INTO meta VALUES (?, ?)", told)
    began, ended = at(0), at(length)
    summary = Summary(run, status="finished", first=began, last=ended, started=began, ended=ended, heard=ended, rev=1)
    folder.summary(run).write_text(summary.to_json())


def answers(folder: Folder, questions: dict[str, tuple[str, str, dict[str, Any]]], times: int) -> Iterator[Row]:
    """A row for each question: its run, path and parameters."""
    served = backend.start(folder)
    try:
        with Client(served.url) as client:
            client.runs()
            for what, (run, path, parameters) in questions.items():
                found = [_asked(client, run, path, parameters) for _ in range(times)]
                note = f"first {seconds(found[0])}"
                taken = median(found)
                yield Row("local_queries", f"{what}, through HTTP", taken, " s", BUDGET, note, judge(taken, BUDGET))
    finally:
        backend.stop(folder)


def first_pages(times: int) -> Iterator[Row]:
    """A row for each number of stored runs."""
    with tempfile.TemporaryDirectory(prefix="vo-page-") as made:
        folder = Folder(Path(made))
        original = _made_run(folder)
        stored = 1
        for count in COUNTS:
            for number in range(stored, count):
                _copy(folder, original, number)
            stored = count
            yield _first_page(folder, count, times)


def _first_page(folder: Folder, count: int, times: int) -> Row:
    total, listing, ready = [], [], []
    for _ in range(times):
        begin = perf_counter()
        served = backend.start(folder)
        ready.append(perf_counter() - begin)
        try:
            with Client(served.url) as client:
                begin = perf_counter()
                for path in _page_files():
                    _get(served.url + path)
                asked = perf_counter()
                newest = run_path(client.runs()[0]["id"])
                listing.append(perf_counter() - asked)
                for path, parameters in (("", {}), ("/keys", {}), ("/steps", {"bins": 400})):
                    client.get(newest + path, **parameters)
                total.append(perf_counter() - begin)
        finally:
            backend.stop(folder)
    taken = median(total)
    listed, started = (seconds(median(one).value) for one in (listing, ready))
    note = f"the list alone {listed}; the backend was ready {started} after its start"
    what = f"first page, {count:,} stored run" + ("s" if count > 1 else "")
    return Row("local_queries", what, taken, " s", BUDGET, note, judge(taken, BUDGET))


def _page_files() -> list[str]:
    """Of the page as it is built here."""
    return ["/", *(f"/assets/{one.name}" for one in (PAGE / "assets").iterdir() if one.suffix in (".js", ".css"))]


def _get(url: str) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.get(url, timeout=_PATIENCE).raise_for_status()


def _asked(client: Client, run: str, path: str, parameters: dict[str, Any]) -> float:
    begin = perf_counter()
    client.run(run, path, **parameters)
    return perf_counter() - begin


def _made_run(folder: Folder) -> Summary:
    """200 steps of 64 ranks; the last four with every rank and trajectory. Raises `RuntimeError`."""
    with Store(folder) as store:
        for signal, body in fleet.requests(time.time_ns(), _MADE):
            store.accept(signal, body)
        if not store.settle(_PATIENCE):
            raise RuntimeError(f"a made run isn't stored after {_PATIENCE:.0f} s")
    return Summary.from_json(folder.summary(fleet.RUN_ID).read_text())


def _copy(folder: Folder, original: Summary, number: int) -> None:
    """The same run once more, so many hours older."""
    named, earlier = f"run-{number:04}", number * _HOUR
    times = {name: getattr(original, name) for name in ("first", "last", "started", "ended", "heard")}
    moved = {name: value - earlier for name, value in times.items() if value is not None}
    os.link(folder.database(original.id), folder.database(named))
    folder.summary(named).write_text(dataclasses.replace(original, id=named, **moved).to_json())
