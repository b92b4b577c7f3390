"""The embedded backend's receivers and store in this process, on loopback, for tests."""

import contextlib
import socket
import threading
import time

import uvicorn
from starlette.applications import Starlette

from verl_otel.local.otlp.grpc import GrpcReceiver
from verl_otel.local.otlp.http import HttpReceiver
from verl_otel.local.store.folder import Folder
from verl_otel.local.store.store import Store

RUN = "20260101-000000-abcdef"


def ask(store, query, run=RUN, *parameters):
    """Rows, once all that was accepted is in the databases."""
    assert store.settle(20)
    with store.reading(run) as connection:
        return connection.execute(query, [*parameters]).fetchall()


def names(store, run=RUN):
    """Of its spans."""
    return sorted(name for (name,) in ask(store, "SELECT name FROM spans", run))


class Served:
    """A store and where it listens. `accept` may be replaced by what a test wants to happen."""

    def __init__(self, store):
        self.store, self.accept = store, store.accept
        self.url = self.grpc = ""

    def rows(self, run, query, *parameters):
        return ask(self.store, query, run, *parameters)


@contextlib.contextmanager
def served(path, token=None, limits=None):
    with Store(Folder(path), limits) as store:
        found = Served(store)

        def accept(signal, body):
            found.accept(signal, body)

        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        app = HttpReceiver(Starlette(), accept, token)
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        with GrpcReceiver(accept, "127.0.0.1", 0, token) as grpc:
            found.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            found.grpc = f"127.0.0.1:{grpc.port}"
            while not server.started:
                time.sleep(0.01)
            try:
                yield found
            finally:
                server.should_exit = True
                thread.join(10)
