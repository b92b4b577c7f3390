"""The store of the embedded backend with several runs and readers at once: who waits, who is told, what goes."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time

import duckdb
import pytest

import otlp_made as made
from local_backend import RUN, ask, names
from otlp_made import send
from sending import eventually
from verl_otel import local, semconv
from verl_otel.local import backend
from verl_otel.local.errors import LocalError
from verl_otel.local.store import database, retention
from verl_otel.local.store.database import UnknownRunError
from verl_otel.local.store.folder import Folder
from verl_otel.local.store.runs import Runs
from verl_otel.local.store.store import Store

pytestmark = pytest.mark.usefixtures("quick")


def test_readers_and_the_writer_dont_hinder_each_other(folder):
    def read():
        while not done.is_set():
            with contextlib.suppress(UnknownRunError), store.reading(RUN) as connection:
                seen.append(connection.execute("SELECT count(*) FROM spans").fetchall()[0][0])

    seen, done = [], threading.Event()
    with Store(folder) as store:
        readers = [threading.Thread(target=read) for _ in range(3)]
        for one in readers:
            one.start()
        for _ in range(10):
            send(store, made.traces(RUN, 50))
            time.sleep(0.05)
        assert len(names(store)) == 500
        done.set()
        for one in readers:
            one.join()
    assert all(count % 50 == 0 for count in seen)
    assert max(seen) > 0


def test_more_runs_than_databases_are_kept_open(folder):
    runs = [f"run-{number}" for number in range(2 * database.MOST_OPEN)]
    with Store(folder) as store:
        for turn in range(2):
            for run in runs:
                send(store, made.traces(run, 2), made.metrics(run, [("m", {"turn": 1}, turn)]))
            assert store.settle(30)
        for run in runs:
            assert len(names(store, run)) == 4
            assert ask(store, "SELECT count(*), count(DISTINCT series) FROM points", run) == [(2, 1)]
        assert len(store._databases._open) <= database.MOST_OPEN


def test_a_run_is_removed_with_all_it_has_unless_it_runs(folder):
    with Store(folder) as store:
        send(store, made.traces("runs"), made.event("over", semconv.EVENT_RUN_END, {semconv.RUN_OUTCOME: "finished"}))
        assert store.settle(20)
        with pytest.raises(LocalError, match="running"):
            store.remove("runs")
        store.remove("over")
        assert [one["id"] for one in store.runs.list()] == ["runs"]
        with pytest.raises(UnknownRunError), store.reading("over"):
            pass
        with pytest.raises(UnknownRunError):
            store.remove("over")
    assert [one.stem for one in folder.runs.iterdir()] == ["runs", "runs"]


def test_retention_takes_the_oldest_and_never_one_that_runs():
    day = 86_400_000
    runs = [
        {"id": str(age), "status": status, "updated": 100 * day - age * day, "bytes": 10}
        for age, status in ((50, "running"), (40, "failed"), (30, "finished"), (20, "vanished"), (1, "finished"))
    ]
    now = 100 * 86_400.0
    assert retention.too_many(runs, retention.Limits(), now) == []
    assert retention.too_many(runs, retention.Limits(days=25), now) == ["40", "30"]
    assert retention.too_many(runs, retention.Limits(bytes=35), now) == ["40", "30"]
    assert retention.too_many(runs, retention.Limits(days=35, bytes=29), now) == ["40", "30", "20"]
    assert retention.too_many(runs, retention.Limits(bytes=0), now) == ["40", "30", "20", "1"]


def test_retention_is_applied(folder):
    with Store(folder) as store:
        for run in ("a", "b"):
            send(store, made.event(run, semconv.EVENT_RUN_END, {semconv.RUN_OUTCOME: "finished"}))
        assert store.settle(20)
        assert sorted(retention.apply(store, retention.Limits(days=1))) == ["a", "b"]
        assert store.runs.list() == []


def test_whoever_subscribed_is_told_of_each_runs_revision(folder):
    told = []
    with Store(folder) as store:
        end = store.subscribe(told.append)
        send(store, made.traces("a"))
        assert store.settle(20)
        assert eventually(lambda: told, 5)
        send(store, made.traces("a"), made.traces("b"), made.traces(None))
        assert store.settle(20)
        assert eventually(lambda: len(told) > 1, 5)
        end()
        send(store, made.traces("a"))
        assert store.settle(20)
    assert told[0] == {"a": 1}
    assert {run: rev for one in told for run, rev in one.items()} == {"a": 2, "b": 1}
    with Store(folder) as store:  # and it goes on from there
        assert store.runs.rev("a") == 3


def test_the_list_is_there_without_the_databases_and_right_after_a_crash(folder):
    with Store(folder) as store:
        send(store, made.event("over", semconv.EVENT_RUN_END, {semconv.RUN_OUTCOME: "finished"}), made.traces("runs"))
        assert store.settle(20)
        before = {one["id"]: one["status"] for one in store.runs.list()}
    assert before == {"over": "finished", "runs": "running"}
    stale = json.loads(folder.summary("over").read_text())
    folder.summary("over").write_text(json.dumps({**stale, "status": "running"}))  # the last one was not written
    os.utime(folder.summary("over"), (0, 0))
    folder.summary("runs").unlink()
    with Store(folder) as store:
        assert {one["id"]: one["status"] for one in store.runs.list()} == before


def test_a_start_opens_no_database_whose_summary_is_newer(folder, monkeypatch):
    with Store(folder) as store:
        send(store, made.traces("a"), made.traces("b"))
        assert store.settle(20)
    with Store(folder):
        pass  # the summaries are now those of the closed databases

    def opened(*_, **__):
        raise AssertionError("opened")

    monkeypatch.setattr("verl_otel.local.store.runs.open_database", opened)
    assert sorted(one["id"] for one in Runs(folder).list()) == ["a", "b"]


def test_a_subscriber_that_raises_hinders_nothing(folder):
    with Store(folder) as store:
        store.subscribe(lambda revs: revs["not there"])
        for number in range(1, 4):
            send(store, made.traces(RUN))
            assert len(names(store)) == number


def test_a_copy_holds_what_the_live_database_does(folder, tmp_path):
    with Store(folder) as store:
        send(store, made.traces(RUN, 3), made.snapshot(RUN, 1, {"loss": 0.5}))
        assert store.settle(20)
        store.copy(RUN, tmp_path / "it's.duckdb")
        send(store, made.traces(RUN, 1))
        assert len(names(store)) == 4
    with local.open(tmp_path / "it's.duckdb") as connection:
        assert connection.execute("SELECT count(*) FROM spans").fetchall() == [(3,)]
        assert connection.execute("SELECT key, value FROM scalars").fetchall() == [("loss", 0.5)]
        with pytest.raises(duckdb.Error):
            connection.execute("DELETE FROM spans")


def test_a_notebook_opens_a_run_by_the_beginning_of_its_name(folder):
    with Store(folder) as store:
        send(store, made.traces("20260101-a", 3), made.traces("20260202-b", 1))
        assert store.settle(20)
    with local.open("20260101", folder.path) as connection:
        assert connection.execute("SELECT count(*) FROM spans").fetchall() == [(3,)]
    with pytest.raises(LocalError, match="any of 2"):
        local.open("2026", folder.path)
    with pytest.raises(LocalError, match="there is no run"):
        local.open("1999", folder.path)


def test_a_thread_may_read_a_run_twice_at_once_while_the_writer_waits_for_it(folder):
    with Store(folder) as store:
        send(store, made.traces(RUN, 1))
    with Store(folder) as store:
        with store.reading(RUN) as outer:
            send(store, made.traces(RUN, 1))  # to be written it must be closed first
            assert eventually(lambda: RUN in store._databases._busy, 10)
            with store.reading(RUN) as inner:
                assert inner.execute("SELECT count(*) FROM spans").fetchall() == [(1,)]
            assert outer.execute("SELECT count(*) FROM spans").fetchall() == [(1,)]
        assert len(names(store)) == 2


def test_a_silent_runs_database_is_closed_so_that_others_may_open_it(folder, monkeypatch):
    monkeypatch.setattr("verl_otel.local.store.writer._SILENT", 0.1)
    with Store(folder) as store:
        send(store, made.traces(RUN, 2))
        assert store.settle(20)
        code = "import duckdb, sys; print(duckdb.connect(sys.argv[1], read_only=True).execute('FROM spans').fetchall())"
        command = [sys.executable, "-c", code, str(folder.database(RUN))]
        assert eventually(lambda: subprocess.run(command, capture_output=True).returncode == 0, 20)
        send(store, made.traces(RUN, 1))
        assert len(names(store)) == 3


def test_a_live_run_is_opened_as_a_copy_from_its_server(tmp_path):
    folder = Folder(tmp_path / "backend")
    served = backend.start(folder)
    try:
        with backend.client_of(folder, served) as client:
            client.send("traces", made.traces("live", 3).SerializeToString())
            assert eventually(lambda: [one["id"] for one in client.runs()] == ["live"], 20)
        with local.open("li", folder.path) as connection:
            assert connection.execute("SELECT count(*) FROM spans").fetchall() == [(3,)]
    finally:
        assert backend.stop(folder)
    assert folder.backend() is None
    with local.open("live", folder.path) as connection:
        assert connection.execute("SELECT count(*) FROM spans").fetchall() == [(3,)]
