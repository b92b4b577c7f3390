"""The commands of the embedded backend as a user has them, in a folder of the test's own."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from verl_otel.local.client import Client
from verl_otel.local.fleet import Fleet
from verl_otel.local.store.folder import Folder

VERL_OTEL = Path(sys.executable).with_name("verl-otel")
PROGRAM = Path(__file__).resolve().parent / "local_program.py"
SMALL = Fleet(ranks=16, replicas=4, agents=2, steps=3, history=12, groups=6, sessions=2)


def environment(more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "VERL_OTEL_"))}
    return {**kept, **more}


def command(*words, cwd=None, **more):
    done = subprocess.run(
        [VERL_OTEL, *map(str, words)],
        env=environment(more), cwd=cwd, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    print(done.stdout, done.stderr)
    return done


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(condition, what, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


class Commands:
    """Of one folder."""

    def __init__(self, folder):
        self.folder = Folder(folder)

    def __call__(self, *words, **more):
        name, *rest = words
        return command(name, "--folder", self.folder.path, *rest, **more)

    @contextlib.contextmanager
    def up(self, *words):
        """In the foreground of a process of its own; gives what it printed when it was ready."""
        ports = ["--port", free_port(), "--grpc-port", free_port()]
        started = [VERL_OTEL, "up", "--json", "--folder", self.folder.path, *ports, *words]
        with subprocess.Popen([*map(str, started)], env=environment({}), stdout=subprocess.PIPE, text=True) as process:
            try:
                yield {**json.loads(process.stdout.readline()), "process": process}
            finally:
                process.terminate()
                process.wait(30)

    def runs(self):
        return {one["id"]: one for one in json.loads(self("ls", "--json").stdout)}


def send(url, requests):
    """All of them, and wait until they are stored: the last is the run's end."""
    with Client(url) as client:
        for name, body in requests:
            client.send(name, body)
        wait_for(lambda: any(one["status"] != "running" for one in client.runs()), "it never ended")


def links(text):
    return re.findall(r"^verl-otel: (http://127\.0\.0\.1:\S+)", text, re.MULTILINE)
