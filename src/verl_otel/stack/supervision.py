"""The programs under supervisord: started, started again when they end, their logs turned over, stopped in order."""

import contextlib
import http.client
import os
import shlex
import signal
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from verl_otel.stack import StackError
from verl_otel.stack.services import Service

MARK: Final = "VERL_OTEL_STACK"
"""Variable that names the stack's folder in the environment of each of its processes."""
STOPPING: Final = 30
"""Seconds that a program may take to end by itself, as a collector that still sends."""
_LOG_BYTES: Final = 20 << 20
_SOCKET_BYTES: Final = 100
_NOT_OURS: Final = ("OTEL_", "VERL_OTEL_", "GF_")
"""Beginnings of variables for the programs that people run, not for these."""


def start(folder: Path, services: list[Service]) -> None:
    """Start supervisord, which starts the programs. Raises `StackError`."""
    configuration = folder / "supervisord.conf"
    configuration.write_text(_configuration(folder, services))
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_NOT_OURS)}
    environment[MARK] = str(folder)
    command = [sys.executable, "-W", "ignore", "-m", "supervisor.supervisord", "-c", str(configuration)]
    with (folder / "logs" / "supervisord-start.log").open("w+") as said:
        ended = subprocess.run(  # noqa: S603
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        said.seek(0)
        if ended.returncode != 0:
            raise StackError(f"supervisord can't be started: {said.read().strip().partition(chr(10))[0]}")


def states(folder: Path) -> dict[str, dict[str, Any]] | None:
    """What supervisord says of each program by name (statename, pid, description); None if it isn't there."""
    with _asking(folder) as server:
        told: Any = server.supervisor.getAllProcessInfo()
        return {one["name"]: one for one in told}
    return None


def stop(folder: Path, seconds: float) -> None:
    """Stop everything, the collector first; what is still there after `seconds` is killed."""
    with _asking(folder) as server:
        server.supervisor.shutdown()
    deadline = time.monotonic() + seconds
    while (left := leftovers(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def leftovers(folder: Path) -> list[int]:
    """Processes of this stack, whoever still looks after them."""
    mark, found = f"{MARK}={folder}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0") and b"Z (" not in _state(process):
                found.append(int(process.name))
    return found


def end_leftovers(folder: Path) -> int:
    """End what a supervisord that was killed has left; returns how many there were."""
    found = leftovers(folder)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOPPING
    while (left := leftovers(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _state(process: Path) -> bytes:
    return next((line for line in (process / "status").read_bytes().splitlines() if line.startswith(b"State:")), b"")


@contextlib.contextmanager
def _asking(folder: Path) -> Iterator[xmlrpc.client.ServerProxy]:
    from supervisor.xmlrpc import SupervisorTransport

    transport = SupervisorTransport(None, None, f"unix://{_socket(folder)}")
    with contextlib.suppress(OSError, http.client.HTTPException, xmlrpc.client.Error):
        yield xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)


def _socket(folder: Path) -> Path:
    """Its path must be short, whatever the folder's is."""
    inside = folder / "supervisord.sock"
    if len(os.fsencode(inside)) < _SOCKET_BYTES:
        return inside
    return Path("/tmp") / f"verl-otel-{os.getuid()}-{sha256(os.fsencode(folder)).hexdigest()[:12]}.sock"  # noqa: S108


def _configuration(folder: Path, services: list[Service]) -> str:
    socket = _socket(folder)
    lines = [
        "[supervisord]",
        f"logfile={_escaped(folder / 'logs' / 'supervisord.log')}",
        f"pidfile={_escaped(folder / 'supervisord.pid')}",
        f"directory={_escaped(folder)}",
        "umask=077",
        *(["user=root"] if os.getuid() == 0 else []),  # or it warns of it
        "[unix_http_server]",
        f"file={_escaped(socket)}",
        "chmod=0700",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
    ]
    for place, service in enumerate(services, 1):
        environment = ",".join(f'{key}="{_escaped(value)}"' for key, value in service.environment.items())
        lines += [
            f"[program:{service.name}]",
            f"command={_escaped(shlex.join(service.command))}",
            f"environment={environment}",
            f"priority={place}",
            "autorestart=true",
            "startsecs=1",
            "startretries=5",
            f"stopwaitsecs={STOPPING}",
            "redirect_stderr=true",
            # Relative to the folder: of this value alone it reads a percent sign twice.
            f"stdout_logfile=logs/{service.name}.log",
            f"stdout_logfile_maxbytes={_LOG_BYTES}",
            "stdout_logfile_backups=2",
        ]
    return "\n".join(lines) + "\n"


def _escaped(text: object) -> str:
    return str(text).replace("%", "%%")
