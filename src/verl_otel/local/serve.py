"""Serving a folder in this process until it is told to end: the store, OTLP over HTTP and gRPC, the API, the page."""

import contextlib
import functools
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import uvicorn

from verl_otel.local import backend, fleet
from verl_otel.local.errors import LocalError
from verl_otel.local.journal import JournalFullError
from verl_otel.local.otlp.grpc import GrpcReceiver
from verl_otel.local.server import create_app
from verl_otel.local.store import retention
from verl_otel.local.store.folder import Backend, Folder
from verl_otel.local.store.retention import Limits
from verl_otel.local.store.store import Store
from verl_otel.stack import StackError, ports
from verl_otel.stack.plan import secret
from verl_otel.stack.ports import LOOPBACK

Ready = Callable[[Backend, str], None]
"""Is told who serves, and the link to the page."""

_HTTP: Final = "otlp-http"
_GRPC: Final = "otlp-grpc"
_OPTIONS: Final = {_HTTP: "--port NUMBER", _GRPC: "--grpc-port NUMBER"}
_GRACE: Final = 2
"""Seconds for answers that are on their way when it ends; a page that listens for news never ends by itself."""
_REMOVE_EVERY: Final = 600.0


@dataclass(frozen=True)
class Options:
    """What the user asked for; None is the usual. `bind`: address to listen on."""

    port: int | None = None
    grpc_port: int | None = None
    bind: str = LOOPBACK
    demo: bool = False
    limits: Limits = field(default_factory=Limits)


def run(folder: Folder, options: Options, ready: Ready) -> None:
    """Serve until SIGINT or SIGTERM. Raises `LocalError` if it can't begin."""
    bind = options.bind
    with folder.served(), contextlib.ExitStack() as stack:
        token = _secret(folder) if bind != LOOPBACK else None
        chosen = _ports(options)
        listening = stack.enter_context(_socket(bind, chosen[_HTTP]))
        store = stack.enter_context(Store(folder))
        grpc = stack.enter_context(GrpcReceiver(store.accept, bind, chosen[_GRPC], token))
        stack.enter_context(_quiet_ends())
        stack.enter_context(_beside(functools.partial(_remove_expired, store, options.limits)))
        if options.demo:
            stack.enter_context(_beside(functools.partial(_write_demo, store)))
        host = _shown(bind)
        made = Backend(os.getpid(), f"http://{host}:{chosen[_HTTP]}", f"{host}:{grpc.port}", time.time_ns())

        def announce() -> None:
            folder.announce(made)
            ready(made, backend.link(folder, made))

        _Server(create_app(store, token=token, bind=bind), announce).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, app: Any, announce: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="warning",
                access_log=False,
                proxy_headers=False,  # who asks is whoever is connected
                timeout_graceful_shutdown=_GRACE,
                lifespan="auto",
            )
        )
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()


def _ports(options: Options) -> dict[str, int]:
    given = {_HTTP: options.port, _GRPC: options.grpc_port}
    wanted = {name: one for name, one in given.items() if one is not None}
    try:
        return ports.choose(wanted, tuple(given), dict.fromkeys(given, options.bind), lambda name: _OPTIONS[name])
    except StackError as error:
        raise LocalError(str(error)) from None


def _secret(folder: Folder) -> str:
    try:
        return secret(folder.token)
    except StackError as error:
        raise LocalError(str(error)) from None


def _socket(bind: str, port: int) -> socket.socket:
    """Bound at once: between the look for a free port and the start nobody takes it. Raises `LocalError`."""
    made = socket.socket(socket.AF_INET6 if ":" in bind else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((bind, port))
    except OSError as error:
        made.close()
        raise LocalError(f"port {port} on {bind} can't be had ({error.strerror}): choose another with --port") from None
    return made


def _shown(bind: str) -> str:
    """An address that others can use."""
    if bind in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return socket.getfqdn()
    return f"[{bind}]" if ":" in bind else bind


@contextlib.contextmanager
def _quiet_ends() -> Iterator[None]:
    """The server raises the signal that ended it again when it has ended: what stands around it must end, too."""
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(name, lambda *_: None) for name in names]
    try:
        yield
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


@contextlib.contextmanager
def _beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Does something on a thread meanwhile; it is told when to end."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _write_demo(store: Store, ended: threading.Event) -> None:
    """One that is there already stays as it is."""
    if fleet.RUN_ID in {one["id"] for one in store.runs.list()}:
        return
    for name, body in fleet.requests(time.time_ns()):
        while not ended.is_set():
            try:
                store.accept(name, body)
                break
            except JournalFullError as error:
                ended.wait(error.wait)
        if ended.is_set():
            return


def _remove_expired(store: Store, limits: Limits, ended: threading.Event) -> None:
    if limits == Limits():
        return
    while True:
        retention.apply(store, limits)
        if ended.wait(_REMOVE_EVERY):
            return
