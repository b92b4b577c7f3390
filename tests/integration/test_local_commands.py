"""`verl-otel run`, `up` and `down`: who serves, who waits for whom, and what is left behind."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import duckdb
import pytest

from local_commands import PROGRAM, SMALL, VERL_OTEL, Commands, command, environment, free_port, links, send, wait_for
from verl_otel.local import backend, fleet
from verl_otel.local.client import Client
from verl_otel.local.errors import LocalError

WITHOUT_DUCKDB = "import sys; sys.modules['duckdb'] = None; from verl_otel.cli import main; sys.argv[0] = 'v'; main()"


@pytest.fixture
def commands(tmp_path):
    made = Commands(tmp_path / "a folder with 100 % blanks")
    yield made
    backend.stop(made.folder)


def test_run_passes_the_exit_code_on_and_shows_where_it_is(commands):
    port = free_port()
    done = commands("run", "--port", port, "--", sys.executable, PROGRAM, "first", "--exit", 7)
    assert done.returncode == 7, done.stderr
    assert links(done.stderr) == [f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/#/overview/first"]

    # The backend outlives it, and takes what comes next, whatever proxy the user has.
    pid = commands.folder.backend().pid
    proxy = {"http_proxy": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9"}
    done = commands("run", "--", sys.executable, PROGRAM, "second", **proxy)
    assert done.returncode == 0, done.stderr
    assert links(done.stderr) == [f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/#/overview/second"]
    assert commands.folder.backend().pid == pid
    assert set(commands.runs()) == {"first", "second"}

    assert commands("down").stdout == "stopped\n"
    assert commands("down").stdout == "nothing was running\n"
    assert not (commands.folder.path / "backend.json").exists()
    # What it took is there, in databases and not in the journal.
    assert set(commands.runs()) == {"first", "second"}
    with contextlib.closing(duckdb.connect(str(commands.folder.database("first")), read_only=True)) as database:
        assert database.execute("SELECT name, step FROM spans").fetchall() == [("verl.step", 1)]
        assert database.execute("SELECT value FROM points").fetchall() == [(3.0,)]


def test_what_is_no_python_is_told_to_observe_itself(commands):
    done = commands(
        "run", "--port", free_port(), "--", "sh", "-c", "echo $VERL_OTEL_ENABLED $OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    assert done.stdout == f"true {commands.folder.backend().url}\n"
    assert "nothing arrived" in done.stderr


def test_run_of_what_is_not_there_starts_nothing(commands):
    done = commands("run", "--", "no-such-command", "x")
    assert done.returncode == 127
    assert done.stderr == "error: there is no command 'no-such-command'\n"
    assert not commands.folder.path.exists()


def test_ctrl_c_is_the_commands_own_matter(commands):
    words = [
        "run",
        "--folder",
        commands.folder.path,
        "--port",
        free_port(),
        "--",
        sys.executable,
        PROGRAM,
        "r",
        "--wait",
    ]
    with subprocess.Popen(
        [*map(str, (VERL_OTEL, *words, "--exit", 9))], env=environment({}), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "interrupted\n"
        assert process.wait(20) == 9
    assert backend.serving(commands.folder) is not None


def test_a_port_that_is_taken_is_said_and_the_usual_ones_give_way(commands):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = commands("up", "--port", port)
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: port {port} on 127.0.0.1, wanted for otlp-http: Address already in use;")
        assert "--port NUMBER" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        done = commands("run", "--port", port, "--", "true")
        assert (done.returncode, len(done.stderr.splitlines())) == (125, 1)
        assert "the backend doesn't start: port" in done.stderr
    with contextlib.ExitStack() as stack:
        for usual in (4317, 4318):
            held = stack.enter_context(socket.socket())
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):  # somebody else's: as good
                held.bind(("127.0.0.1", usual))
                held.listen()
        assert commands("run", "--", "true").returncode == 0
        found = commands.folder.backend()
        assert int(found.url.rpartition(":")[2]) > 4318
        assert int(found.grpc.rpartition(":")[2]) > 4317


def test_a_folder_is_served_once(commands):
    with commands.up() as told:
        done = commands("up")
        assert done.returncode == 1
        assert done.stderr.startswith(
            f"error: {commands.folder.path} is served by process {told['pid']} at {told['url']}"
        )
        assert commands.folder.path.stat().st_mode & 0o077 == 0
        # Commands at the same time agree on one.
        started = [
            subprocess.Popen(
                [VERL_OTEL, "run", "--folder", commands.folder.path, "--", "true"], stderr=subprocess.DEVNULL
            )
            for _ in range(3)
        ]
        assert [one.wait(30) for one in started] == [0, 0, 0]
        assert commands.folder.backend().pid == told["pid"]
    assert told["process"].returncode == 0


def test_commands_that_start_one_at_the_same_time_agree_on_one(commands):
    started = [
        subprocess.Popen([VERL_OTEL, "run", "--folder", commands.folder.path, "--", "true"], stderr=subprocess.DEVNULL)
        for _ in range(3)
    ]
    assert [one.wait(60) for one in started] == [0, 0, 0]
    assert backend.serving(commands.folder) is not None


def test_what_a_killed_backend_left_behind_is_no_hindrance(commands):
    with commands.up() as told:
        send(told["url"], fleet.requests(time.time_ns(), SMALL))
        told["process"].kill()
        told["process"].wait(10)
    left = commands.folder.path / "backend.json"
    # Its number may be another's by now.
    left.write_text(json.dumps({**json.loads(left.read_text()), "pid": os.getpid()}))
    assert commands("down").stdout == "nothing was running\n"
    assert commands("tail").stderr == f"error: nothing serves {commands.folder.path}: `verl-otel up` does\n"
    assert commands("run", "--port", free_port(), "--", "true").returncode == 0
    assert commands.runs()["demo"]["step"] == 15


def test_demo_is_made_data_that_says_so(commands):
    with commands.up("--demo") as told, Client(told["url"]) as client:
        run = wait_for(lambda: [one for one in client.runs() if one["experiment"]], "no demo")[0]
        assert (run["id"], run["experiment"], run["demo"]) == ("demo", "demo (made data)", True)
        told["process"].terminate()  # in the middle of it
        assert told["process"].wait(20) == 0


def test_folders_that_can_not_be_used_are_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for words in (["up"], ["run", "--", "true"]):
        name, *rest = words
        done = command(name, "--folder", tmp_path / "file" / "below", *rest)
        assert done.returncode in (1, 125)
        assert len(done.stderr.splitlines()) == 1
        assert "give another with --folder" in done.stderr


def test_without_the_extra_one_line_says_what_is_missing():
    done = subprocess.run([sys.executable, "-c", WITHOUT_DUCKDB, "up"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stderr == "Error: this needs the extra `local`: pip install 'verl-otel[local]' (duckdb missing)\n"


def test_help_and_lists_need_no_database_library(commands):
    for words in (["--help"], ["run", "--help"], ["ls", "--folder", str(commands.folder.path)]):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_DUCKDB, *words], capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 0, done.stderr


def test_a_client_says_what_is_wrong_in_one_line():
    with Client(f"http://127.0.0.1:{free_port()}") as client, pytest.raises(LocalError, match="nothing answers at"):
        client.runs()
