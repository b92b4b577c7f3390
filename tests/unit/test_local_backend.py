"""Who serves a folder, by its lock; links and headers where a token is asked for."""

import fcntl
import json
import os
from urllib.parse import unquote

import pytest

from verl_otel.local import backend
from verl_otel.local.errors import LocalError
from verl_otel.local.store.folder import Backend, Folder

LOOPBACK = Backend(1, "http://127.0.0.1:4318", "127.0.0.1:4317", 0)
OPEN = Backend(1, "http://node-3:4318", "node-3:4317", 0)


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path)
    made.make()
    return made


def test_links_name_a_run_whatever_is_in_its_id(folder):
    assert backend.link(folder, LOOPBACK) == "http://127.0.0.1:4318/"
    assert backend.link(folder, LOOPBACK, "a b/ü") == "http://127.0.0.1:4318/#/overview/a%20b%2F%C3%BC"


def test_the_token_is_in_the_link_and_the_headers_where_one_is_asked_for(folder):
    folder.token.write_text("se cret\n")
    assert backend.link(folder, OPEN, "r") == "http://node-3:4318/?token=se%20cret#/overview/r"
    path = backend.headers_file(folder, OPEN)
    assert unquote(path.read_text()) == "authorization=Bearer se cret\n"
    assert path.stat().st_mode & 0o077 == 0
    # Of an earlier time: on loopback none is asked for.
    assert backend.link(folder, LOOPBACK) == "http://127.0.0.1:4318/"
    assert backend.headers_file(folder, LOOPBACK) is None


def test_nobody_serves_it_without_the_lock_whatever_the_file_says(folder):
    assert backend.serving(folder) is None
    (folder.path / "backend.json").write_text(json.dumps({**vars(LOOPBACK), "pid": os.getpid()}))
    assert backend.serving(folder) is None
    assert backend.stop(folder) is False


def test_one_that_serves_and_does_not_answer_is_said_with_what_to_do(folder):
    (folder.path / "backend.json").write_text(
        json.dumps({"pid": os.getpid(), "url": "http://127.0.0.1:9", "grpc": "", "started": 0})
    )
    with (folder.path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LocalError, match=rf"process {os.getpid()} serves .*, but doesn't answer .* `kill"):
            backend.serving(folder)


def test_one_that_does_not_start_says_its_last_words(folder, monkeypatch):
    monkeypatch.setattr(backend.sys, "executable", "/bin/false")
    with pytest.raises(LocalError, match="the backend doesn't start: exit code 1"):
        backend.start(folder)
