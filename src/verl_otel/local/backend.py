"""The process that serves a folder: whether there is one, started in the background, asked, ended."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from verl_otel.local.client import Client
from verl_otel.local.errors import LocalError
from verl_otel.local.store.folder import Backend, Folder
from verl_otel.stack.plan import write_private
from verl_otel.stack.ports import LOOPBACK

LOG: Final = "backend.log"
PATIENCE: Final = 30.0
"""Seconds for it to be ready, and to end: what it accepted is brought into the databases before."""
_POLL: Final = 0.1
_PROBE: Final = 5.0


def serving(folder: Folder) -> Backend | None:
    """Who serves it now and answers; None if nobody does.

    Raises `LocalError` if somebody does and doesn't answer.
    """
    found = folder.backend()
    if found is None or not _is_served(folder):
        return None
    try:
        with client_of(folder, found) as client:
            client.runs(_PROBE)
    except LocalError:
        raise LocalError(
            f"process {found.pid} serves {folder.path}, but doesn't answer at {found.url}: wait, or end it by "
            f"`kill {found.pid}`; {folder.path / LOG} may say why"
        ) from None
    return found


def start(folder: Folder, port: int | None = None) -> Backend:
    """Start one that outlives this process, and wait until it answers. Raises `LocalError` with its last words."""
    folder.make()
    log = folder.path / LOG
    command = [sys.executable, "-m", "verl_otel.cli", "up", "--folder", str(folder.path.resolve())]
    command += ["--port", str(port)] if port else []
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - this program
            command,
            # `-m` looks for modules here first: not where somebody has a file named as one of ours.
            cwd=folder.path,
            env={name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "VERL_OTEL_"))},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        found = folder.backend()
        # Another command may have started one at the same time: the first to lock the folder serves.
        if found is not None and (found.pid == process.pid or (ended and _is_served(folder))):
            return found
        if ended:
            raise LocalError(f"the backend doesn't start: {_last_words(log) or f'exit code {process.returncode}'}")
        time.sleep(_POLL)
    process.terminate()
    raise LocalError(
        f"the backend isn't ready after {PATIENCE:.0f} s: {_last_words(log) or 'it says nothing'}; see {log}"
    )


def ensure(folder: Folder, port: int | None = None) -> tuple[Backend, bool]:
    """Who serves the folder, started if nobody does; and whether it was started. Raises `LocalError`."""
    if (found := serving(folder)) is not None:
        return found, False
    return start(folder, port), True


def stop(folder: Folder) -> bool:
    """End the one that serves it; False if nobody does. Raises `LocalError` if it doesn't end."""
    found = folder.backend()
    if found is None or not _is_served(folder):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    # The lock goes first: a process that is still on its way out would be something left running.
    while _is_served(folder) or _is_alive(found.pid):
        if time.monotonic() > deadline:
            raise LocalError(
                f"process {found.pid} doesn't end; `kill -9 {found.pid}` loses nothing: what it accepted is taken up "
                "by the next one"
            )
        time.sleep(_POLL)
    return True


@contextlib.contextmanager
def asked(folder: Folder) -> Iterator[Client]:
    """A client of the one that serves the folder, or of one for as long as this lasts. Raises `LocalError`."""
    found, started = ensure(folder)
    try:
        with client_of(folder, found) as client:
            yield client
    finally:
        if started:
            stop(folder)


def client_of(folder: Folder, backend: Backend) -> Client:
    """A client that knows the folder's token, if it has one."""
    return Client(backend.url, _token(folder, backend))


def link(folder: Folder, backend: Backend, run: str | None = None) -> str:
    """Of the page, at a run; with the token where one is asked for, which the browser then keeps."""
    token = _token(folder, backend)
    place = f"#/overview/{quote(run, safe='')}" if run is not None else ""
    return f"{backend.url}/" + (f"?token={quote(token)}" if token else "") + place


def headers_file(folder: Folder, backend: Backend) -> Path | None:
    """File with what senders must show, written here; None if nothing is asked for. Raises `OSError`."""
    token = _token(folder, backend)
    if token is None:
        return None
    path = folder.path / "headers"
    write_private(path, f"authorization={quote(f'Bearer {token}')}\n")
    return path


def _token(folder: Folder, backend: Backend) -> str | None:
    """None of one that listens on loopback alone: it asks for none."""
    if f"//{LOOPBACK}:" in backend.url:
        return None
    with contextlib.suppress(OSError):
        return folder.token.read_text().strip() or None
    return None


def _is_served(folder: Folder) -> bool:
    """By the lock: what backend.json says may be of a process that was killed, its number another's by now."""
    with contextlib.suppress(FileNotFoundError), (folder.path / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _is_alive(pid: int) -> bool:
    """A process that has ended but that nobody has asked how is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _last_words(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("error: ")[:500] if lines else ""
    return ""
