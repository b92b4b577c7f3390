"""Up, status and down of a stack in a folder."""

import contextlib
import fcntl
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import requests

from verl_otel.stack import FILES, StackError, plan, supervision
from verl_otel.stack.plan import Plan
from verl_otel.stack.services import GRAFANA_PASSWORD, Service, services

PATIENCE: Final = 60.0
"""Seconds for all programs to be ready."""
_POLL: Final = 0.2


@dataclass(frozen=True)
class State:
    """Of one program: what supervisord says of it (`RUNNING`, `BACKOFF`, ...), and whether it answers."""

    name: str
    state: str
    is_ready: bool
    address: str
    pid: int = 0
    detail: str = ""


def up(made: Plan, say: Callable[[str], None]) -> None:
    """Write the configuration, start everything and wait until it is ready.

    `say`: told what is waited for. Raises `StackError` with the last words of a program that doesn't come up, and
    nothing is left running then.
    """
    with writing_to(made.folder):
        for name in ("logs", "data/prometheus", "data/tempo", "data/grafana", "data/collector", "config"):
            (made.folder / name).mkdir(parents=True, exist_ok=True)
        _copy_configurations(made)
        plan.secret(made.folder / GRAFANA_PASSWORD)
        made.write()
        every = services(made)
        supervision.start(made.folder, every)
    try:
        _wait(made, every, say)
    except BaseException:
        supervision.stop(made.folder, supervision.STOPPING)
        raise


def is_up(folder: Path) -> bool:
    """Whether there is a stack at work in this folder."""
    return supervision.states(folder) is not None


def status(made: Plan) -> list[State]:
    """How each program is."""
    known = supervision.states(made.folder) or {}
    told = []
    for service in services(made):
        one = known.get(service.name, {})
        state, pid = one.get("statename", "STOPPED"), one.get("pid", 0)
        is_ready = state == "RUNNING" and _answers(service)
        detail = "" if is_ready else _last_words(made.folder, service.name)
        address = service.ready.split("/")[2]
        told.append(State(service.name, state, is_ready, address, pid, detail))
    return told


def down(folder: Path) -> bool:
    """Stop everything; False if nothing was running."""
    with locked(folder):
        if not is_up(folder):
            return supervision.end_leftovers(folder) > 0
        supervision.stop(folder, 2 * supervision.STOPPING)
        return True


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Two commands at once don't change one stack. Raises `StackError`."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        lock = (folder / "lock").open("w")
    with lock:
        try:
            # The kernel's: it goes with its process, so none is ever stale.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StackError(f"another verl-otel stack command is at work in {folder}: wait for its end") from None
        yield


@contextlib.contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """A folder that can't be written is said in one line."""
    try:
        yield
    except OSError as error:
        raise StackError(f"{folder} can't be written ({error.strerror}): give another with --folder") from error


def _copy_configurations(made: Plan) -> None:
    for name in ("collector", "prometheus", "tempo", "grafana"):
        shutil.copytree(FILES / name, made.folder / "config" / name, dirs_exist_ok=True)
    told = made.folder / "config" / "prometheus" / "alertmanagers.yaml"
    told.write_text(f"- targets: ['{made.alertmanager}']\n" if made.alertmanager else "[]\n")


def _wait(made: Plan, every: list[Service], say: Callable[[str], None]) -> None:
    deadline = time.monotonic() + PATIENCE
    waiting = list(every)
    while waiting:
        say(", ".join(one.name for one in waiting))
        known = supervision.states(made.folder) or {}
        waiting = [one for one in waiting if known.get(one.name, {}).get("statename") != "RUNNING" or not _answers(one)]
        given_up = [one for one in waiting if known.get(one.name, {}).get("statename") == "FATAL"]
        if given_up or time.monotonic() > deadline:
            one = (given_up or waiting)[0]
            reason = known.get(one.name, {}).get("spawnerr")
            raise StackError(
                f"{one.name} doesn't come up: {_last_words(made.folder, one.name) or reason or 'it says nothing'} "
                f"(all of it: {made.folder / 'logs' / one.name}.log)"
            )
        time.sleep(_POLL if waiting else 0)


def _answers(service: Service) -> bool:
    with contextlib.suppress(requests.RequestException), requests.Session() as session:
        session.trust_env = False  # a proxy has nothing to say about loopback
        return session.get(service.ready, timeout=2).status_code == 200
    return False


def _last_words(folder: Path, name: str) -> str:
    with contextlib.suppress(OSError):
        lines = (folder / "logs" / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""
    return ""
