"""Asking a backend of this machine: its answers as Python values, its refusals as one line."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote

import requests
from typing_extensions import Self

from verl_otel.local.errors import LocalError

_PATIENCE: Final = 60.0
_UNQUOTED: Final = "!'()*~"
_CHUNK: Final = 1 << 20


class Client:
    """A backend by its URL; `token`: of one that listens beyond loopback. Use as a context manager."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._session = requests.Session()
        # A proxy has nothing to say about loopback, and none is between a cluster's nodes.
        self._session.trust_env = False
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._session.close()

    def get(self, path: str, timeout: float = _PATIENCE, **parameters: Any) -> Any:
        """The answer to a path below /api; parameters that are None are left out. Raises `LocalError`."""
        return self._json(self._ask("GET", f"/api/{path}", timeout, parameters))

    def run(self, run: str, path: str = "", timeout: float = _PATIENCE, **parameters: Any) -> Any:
        """The same of a run. Raises `LocalError`."""
        return self.get(run_path(run, path), timeout, **parameters)

    def runs(self, timeout: float = _PATIENCE) -> list[dict[str, Any]]:
        """Every run, newest first. Raises `LocalError`."""
        found: list[dict[str, Any]] = self.get("runs", timeout)["runs"]
        return found

    def remove(self, run: str) -> None:
        """Remove a run for good. Raises `LocalError`."""
        self._ask("DELETE", f"/api/{run_path(run)}", _PATIENCE, {})

    def send(self, signal: str, body: bytes) -> None:
        """An OTLP request of `traces`, `metrics` or `logs`. Raises `LocalError`."""
        headers = {"Content-Type": "application/x-protobuf"}
        self._ask("POST", f"/v1/{signal}", _PATIENCE, {}, data=body, headers=headers)

    def database(self, run: str, to: Path) -> None:
        """A copy of a run's database, as it is now, into a file. Raises `LocalError`, `OSError`."""
        answer = self._ask("GET", f"/api/{run_path(run, 'database')}", _PATIENCE, {}, stream=True)
        with answer, to.open("wb") as file, self._translated():
            for chunk in answer.iter_content(_CHUNK):
                file.write(chunk)

    def _ask(
        self, method: str, path: str, timeout: float, parameters: Mapping[str, Any], **more: Any
    ) -> requests.Response:
        given = {name: value for name, value in parameters.items() if value is not None}
        with self._translated():
            answer = self._session.request(method, self.url + path, params=given, timeout=timeout, **more)
        if not answer.ok:
            raise LocalError(f"{self.url}{path}: {_reason(answer)}")
        return answer

    def _json(self, answer: requests.Response) -> Any:
        try:
            return answer.json()
        except ValueError:
            raise LocalError(f"{answer.url} doesn't answer as verl-otel does: another program has its port") from None

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except requests.ConnectionError:
            raise LocalError(f"nothing answers at {self.url}: `verl-otel up` starts a backend") from None
        except requests.RequestException as error:
            raise LocalError(f"{self.url}: {type(error).__name__}") from error


def run_path(run: str, path: str = "") -> str:
    """Of a run, below /api: its id may hold anything. Written as JavaScript's encodeURIComponent does."""
    return f"runs/{quote(run, safe=_UNQUOTED)}" + (f"/{path}" if path else "")


def _reason(answer: requests.Response) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(answer.json()["error"])
    return f"{answer.status_code} {answer.reason}"
