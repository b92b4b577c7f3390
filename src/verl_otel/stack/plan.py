"""What a stack consists of and where it listens: decided by `up`, kept in its folder, read by every other command."""

import dataclasses
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from verl_otel.stack import StackError
from verl_otel.stack.ports import LOOPBACK

_FILE: Final = "stack.json"


@dataclass(frozen=True)
class Plan:
    """A stack. `programs`: path of the binary by name, only those that it runs; `ports`: by the names of `ports.USUAL`.

    `bind`: address that OTLP and Grafana listen on, everything else stays on loopback. `metrics_to`, `traces_to` and
    `logs_to`: stores of the user's own (URL of a Prometheus; host:port of OTLP by gRPC; URL for OTLP logs).
    """

    folder: Path
    programs: Mapping[str, Path]
    ports: Mapping[str, int]
    bind: str = LOOPBACK
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    metrics_to: str | None = None
    traces_to: str | None = None
    logs_to: str | None = None
    alertmanager: str | None = None
    retention: str = "15d"
    overlays: tuple[str, ...] = field(default=())

    @property
    def prometheus_url(self) -> str:
        """Where metrics can be asked for."""
        return self.metrics_to or f"http://{LOOPBACK}:{self.ports['prometheus']}"

    @property
    def tempo_url(self) -> str | None:
        """Where traces can be asked for; None if they go elsewhere."""
        return f"http://{LOOPBACK}:{self.ports['tempo']}" if "tempo" in self.programs else None

    @property
    def grafana_url(self) -> str | None:
        """The page for people."""
        return f"http://{self.shown_host}:{self.ports['grafana']}" if "grafana" in self.programs else None

    @property
    def otlp_url(self) -> str:
        """Where runs send to, by HTTP."""
        return f"{'https' if self.certificate else 'http'}://{self.shown_host}:{self.ports['otlp-http']}"

    @property
    def shown_host(self) -> str:
        """An address that others can use for `bind`."""
        if self.bind in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
            import socket

            return socket.getfqdn()
        return f"[{self.bind}]" if ":" in self.bind else self.bind

    def write(self) -> None:
        """Keep it in its folder. Raises `OSError`."""
        kept = {key: _plain(value) for key, value in dataclasses.asdict(self).items() if key != "folder"}
        write_private(self.folder / _FILE, json.dumps(kept, indent=1))


def read(folder: Path) -> Plan:
    """The stack of a folder. Raises `StackError` if there is none."""
    try:
        kept = json.loads((folder / _FILE).read_text())
        paths = {key: Path(kept[key]) if kept[key] else None for key in ("token_file", "certificate", "key")}
        programs = {name: Path(path) for name, path in kept["programs"].items()}
        return Plan(**{**kept, **paths, "folder": folder, "programs": programs, "overlays": tuple(kept["overlays"])})
    except FileNotFoundError:
        raise StackError(f"there is no stack in {folder}: `verl-otel stack up` makes one") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StackError(
            f"{folder / _FILE} can't be read ({error}): remove it, and `verl-otel stack up` writes it anew"
        ) from None


def secret(path: Path) -> str:
    """The secret that a file holds; one is made where there is none yet. Raises `StackError`."""
    try:
        if not path.exists():
            write_private(path, secrets.token_urlsafe(32) + "\n")
        text = path.read_text().strip()
    except OSError as error:
        raise StackError(f"{path} can't be read: {error.strerror}") from error
    if not text:
        raise StackError(f"{path} is empty: it must hold the token, on one line")
    return text


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads, whole or not at all. Raises `OSError`."""
    part = path.with_name(f".{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    part.replace(path)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return str(value) if isinstance(value, Path) else value
