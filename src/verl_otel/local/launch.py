"""Running a user's command so that it is observed and sends here; it stays the user's in all else."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from verl_otel.local.errors import LocalError

CANNOT_RUN: Final = 126
NOT_FOUND: Final = 127
"""Exit codes of a shell for a command that it can't run."""
_PYTHON: Final = re.compile(r"python(\d+(\.\d+)?)?t?$")
_LAUNCHER: Final = """
try:
    from opentelemetry.instrumentation.auto_instrumentation import run
except ImportError:
    raise SystemExit("verl-otel isn't installed for this Python: install it beside verl")
run()
"""
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy")
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_ENDPOINTS: Final = tuple(f"OTEL_EXPORTER_OTLP_{signal}" for signal in ("TRACES_", "METRICS_", "LOGS_"))
_FORWARDED: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_BY_KERNEL: Final = 0x80
"""`si_code` of a signal that the terminal sent, to all of its processes."""


def observed(command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The command by the door that fits, and the variables that the door needs.

    Python is started by OpenTelemetry's launcher, in its own environment; what starts Python itself (torchrun, a
    script) is reached by verl's plugins, from verl 0.9.0 on.
    """
    program = Path(command[0]).name
    if program == "opentelemetry-instrument":
        return list(command), {}
    if _PYTHON.match(program):
        return [command[0], "-c", _LAUNCHER, *command], {}
    return list(command), {"VERL_OTEL_ENABLED": "true"}


def environment(url: str, headers: Path | None, given: Mapping[str, str]) -> dict[str, str]:
    """`given` with where to send; `headers`: file with the token, where the backend asks for one."""
    kept = {name: value for name, value in given.items() if not name.startswith(_ENDPOINTS)}
    kept["OTEL_EXPORTER_OTLP_ENDPOINT"] = url
    kept["OTEL_EXPORTER_OTLP_PROTOCOL"] = "http/protobuf"
    if headers is not None:
        kept["VERL_OTEL_HEADERS_FILE"] = str(headers)
    if any(given.get(name) or given.get(name.upper()) for name in _PROXIES):
        for name in ("no_proxy", "NO_PROXY"):
            hosts = [one.strip() for one in kept.get(name, "").split(",") if one.strip()]
            if "*" not in hosts:
                kept[name] = ",".join([*hosts, *(one for one in _LOOPBACK if one not in hosts)])
    return kept


def follow(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run it to its end, handing on the signals that this process gets; its exit code, 128 and more for a signal.

    Raises `LocalError` if it can't be run; its `code` is a shell's for that.
    """
    signals = {*_FORWARDED, signal.SIGCHLD}
    # Blocked before the start: none gets lost between. The command starts as if they never were.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        process = subprocess.Popen(  # noqa: S603 - what the user asks for
            command, env=dict(variables), preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before)
        )
        while process.poll() is None:
            told = signal.sigtimedwait(signals, 1.0)
            if told is not None and told.si_signo != signal.SIGCHLD and told.si_code != _BY_KERNEL:
                process.send_signal(told.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = process.returncode
    return 128 - code if code < 0 else code


def check(command: Sequence[str]) -> None:
    """Raises `CommandError` if it can't be run at all."""
    if shutil.which(command[0]) is not None:
        return
    if os.sep in command[0] and Path(command[0]).exists():
        raise CommandError(f"{command[0]} can't be run: it is no program, or you may not run it", CANNOT_RUN)
    raise CommandError(f"there is no command {command[0]!r}", NOT_FOUND)


class CommandError(LocalError):
    """A command that can't be run; `code`: what a shell exits with."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
