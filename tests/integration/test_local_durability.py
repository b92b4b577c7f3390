"""The store of the embedded backend through crashes, full disks and upgrades."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

import otlp_made as made
from local_backend import RUN, ask, names
from otlp_made import send
from sending import eventually
from verl_otel.local.errors import LocalError
from verl_otel.local.journal import JournalFullError, Limits
from verl_otel.local.store import database, migrations
from verl_otel.local.store.folder import Backend, Folder
from verl_otel.local.store.store import Store

pytestmark = pytest.mark.usefixtures("quick")

KILLED = """
import os, sys, threading
from pathlib import Path
import otlp_made as made
from verl_otel.local.store import writer
from verl_otel.local.store.folder import Folder
from verl_otel.local.store.runs import Runs
from verl_otel.local.store.store import Store

writer.PAUSE, writer.BATCH = 0.01, 20_000
acknowledged = open(sys.argv[2], "a", buffering=1)
with Folder(Path(sys.argv[1])).served(), Store(Folder(Path(sys.argv[1]))) as store:
    number = int(sys.argv[3])
    while True:
        for run in ("one", "two"):
            body = made.traces(run, 20, name=str(number)).SerializeToString()
            store.accept("traces", body)
            store.accept("traces", body)  # again, as after an answer that was lost
            acknowledged.write(f"{run} {number}\\n")
        number += 1
"""


def test_a_kill_loses_nothing_that_was_accepted_and_takes_nothing_twice(folder, tmp_path):
    told = tmp_path / "acknowledged"
    paths = [str(Path(made.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    for turn, seconds in enumerate((0.4, 0.7, 0.5)):
        command = [sys.executable, "-c", KILLED, str(folder.path), str(told), str(turn * 1_000_000)]
        with (tmp_path / "errors").open("w") as errors:
            process = subprocess.Popen(command, env=environment, stderr=errors)
            assert eventually(lambda first=f" {turn * 1_000_000}\n": told.exists() and first in told.read_text(), 20)
            # Killed in the midst: some of it is in the databases by then.
            assert eventually(lambda: (folder.journal / "taken").exists(), 20)
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
            process.wait(10)
        assert process.returncode == -signal.SIGKILL, (tmp_path / "errors").read_text()
    with Store(folder) as store:
        assert store.settle(60)
        for run in ("one", "two"):
            expected = {line.split()[1] for line in told.read_text().splitlines() if line.startswith(run)}
            found = dict(ask(store, "SELECT name, count(*) FROM spans GROUP BY name", run))
            assert set(found.values()) == {20}
            assert expected <= found.keys()
            assert len(found.keys() - expected) <= 3  # was kept when its word of it was cut


def test_without_the_hint_what_is_there_is_not_taken_again(folder):
    store = Store(folder)
    with store:
        send(store, made.traces("one", 3), made.traces("two", 4), made.metrics("one", [("m", {}, 1.5)]))
        assert store.settle(20)
        kept = folder.path / "kept"
        shutil.copytree(folder.journal, kept)
    shutil.rmtree(folder.journal)
    shutil.copytree(kept, folder.journal)
    (folder.journal / "taken").unlink()
    with Store(folder) as store:
        send(store, made.traces("one", 1))
        assert [len(names(store, run)) for run in ("one", "two")] == [4, 4]
        assert ask(store, "SELECT count(*) FROM points", "one") == [(1,)]


def test_a_full_disk_is_told_and_over_once_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr("verl_otel.local.store.writer._AGAIN", 0.2)
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "small", str(disk)]).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        with Store(Folder(disk / "backend"), Limits(free=1 << 20)) as store:
            accepted = 0
            while accepts(store, made.traces(RUN, 200, attributes={"text": os.urandom(200).hex()})):
                accepted += 1
                assert accepted < 500
                time.sleep(0.01)
            assert accepted > 5
            subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
            last = made.traces(RUN, 200)  # sent again until it is taken, as exporters do
            assert eventually(lambda: accepts(store, last), 20)
            assert len(names(store)) == 200 * (accepted + 1)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def accepts(store, request):
    with contextlib.suppress(JournalFullError):
        send(store, request)
        return True
    return False


def test_a_database_that_somebody_else_has_open_is_written_later_and_others_now(folder, monkeypatch):
    monkeypatch.setattr("verl_otel.local.store.writer._AGAIN", 0.2)
    with Store(folder) as store:
        send(store, made.traces("held", 2))
    code = "import duckdb, sys; c = duckdb.connect(sys.argv[1], read_only=True); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(folder.database("held"))]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline()
    with Store(folder) as store:
        send(store, made.traces("held", 3), made.traces("free", 4))
        assert eventually(lambda: store.runs.rev("free") > 0, 20)
        send(store, made.traces("held", 5), made.traces("free", 6))
        assert eventually(lambda: store.runs.rev("free") > 1, 20)
        assert store.journal.unread > 0
        other.communicate(timeout=10)
        assert len(names(store, "held")) == 10
        assert len(names(store, "free")) == 10


def test_what_cant_be_stored_is_set_aside_and_the_rest_is_there(folder, monkeypatch):
    from verl_otel.local.store import rows

    real = rows._trajectory

    def failing(row, attributes):
        if "poison" in attributes:
            raise ZeroDivisionError
        return real(row, attributes)

    monkeypatch.setattr(rows, "_trajectory", failing)
    with Store(folder) as store:
        for number in range(5):
            send(store, made.traces(RUN, name="invoke_agent x", attributes={"poison": 1} if number == 2 else {}))
        assert len(names(store)) == 4
        assert folder.set_aside.stat().st_size > 0
        send(store, made.traces(RUN))
        assert len(names(store)) == 5


def test_an_older_version_is_migrated_and_a_newer_one_is_refused_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "run.duckdb"
    database.open_database(path, RUN).close()
    with duckdb.connect(str(path)) as older:  # as version 0 was: without what came with 1
        older.execute("DROP TABLE trajectories")
        older.execute("DELETE FROM meta WHERE key = 'schema_version'")
        older.execute("INSERT INTO meta VALUES ('schema_version', '0')")
    with pytest.raises(LocalError, match="no release"):  # and everything is as it was
        database.open_database(path, RUN)
    monkeypatch.setitem(migrations.MIGRATIONS, 0, "CREATE TABLE trajectories (trace VARCHAR)")
    with database.open_database(path, RUN) as connection:
        assert migrations.version(connection) == migrations.VERSION
        assert connection.execute("SELECT count(*) FROM trajectories").fetchall() == [(0,)]
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    for read_only in (True, False):
        with pytest.raises(LocalError, match=r"newer verl-otel.*upgrade") as refused:
            database.open_database(path, RUN, read_only=read_only)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"no database", b""])
def test_a_file_that_is_no_database_of_ours_is_said_in_one_line(tmp_path, content):
    path = tmp_path / "run.duckdb"
    path.write_bytes(content)
    if content:
        with pytest.raises(LocalError, match="can't be opened") as refused:
            database.open_database(path, RUN)
        assert "\n" not in str(refused.value)
    else:
        database.open_database(path, RUN).close()  # a crash may leave an empty one
    with duckdb.connect(str(tmp_path / "other.duckdb")) as other:
        other.execute("CREATE TABLE mine (a INTEGER)")
    with pytest.raises(LocalError, match="something else"):
        database.open_database(tmp_path / "other.duckdb", RUN)


def test_one_process_serves_a_folder(folder):
    with folder.served():
        folder.announce(Backend(os.getpid(), "http://127.0.0.1:4318", "127.0.0.1:4317", 1))
        with pytest.raises(LocalError, match=r"served by process \d+ at http://127.0.0.1:4318"), folder.served():
            pass
        assert folder.backend().url == "http://127.0.0.1:4318"
    assert folder.backend() is None
    with folder.served():
        pass


def test_what_cant_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalError, match="--folder"):
        Folder(tmp_path / "file" / "below").make()
