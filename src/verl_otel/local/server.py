"""The backend's HTTP: OTLP in, the API and the page out, on one port."""

import contextlib
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

import duckdb
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from verl_otel.local import live
from verl_otel.local.access import Access
from verl_otel.local.answers import error, packed
from verl_otel.local.api import QUESTIONS, Question, write_csv
from verl_otel.local.asking import Asking, BusyError, SlowError
from verl_otel.local.errors import LocalError
from verl_otel.local.otlp.http import HttpReceiver
from verl_otel.local.parameters import Parameters
from verl_otel.local.queries.reading import Cursor, NotThereError, ParameterError
from verl_otel.local.store.database import UnknownRunError

PAGE: Final = Path(__file__).parent / "page"
LOOPBACK: Final = "127.0.0.1"
_COPYING: Final = 300.0
"""Seconds for what is written to a file first."""
_HASHED: Final = re.compile(r"-[A-Z0-9]{8}\.\w+$")
"""Ending of a file whose name changes with what is in it."""
_NOT_BUILT: Final = """<!doctype html><html lang="en"><meta charset="utf-8"><title>verl-otel</title>
<p>The page isn't built. In a checkout, run <code>python page/build.py</code>; a wheel has it.</p>
<p>The API answers at <a href="api/runs">/api/runs</a>, and OTLP is taken.</p></html>
"""


class Runs(Protocol):
    """The list of runs; each is a dict of the API's `Run`."""

    def list(self) -> "list[dict[str, Any]]":
        """All of them, newest first."""

    def get(self, run: str, /) -> dict[str, Any]:
        """One of them. Raises `UnknownRunError`."""


class Store(Protocol):
    """What is served: `verl_otel.local.store.Store` is one. Thread-safe."""

    @property
    def runs(self) -> Runs:
        """The runs that there are."""

    def accept(self, signal: str, body: bytes, /) -> None:
        """Keep an OTLP request."""

    def reading(self, run: str, /) -> AbstractContextManager[Cursor]:
        """A cursor on a run's database. Raises `LocalError`."""

    def subscribe(self, changed: Callable[[Mapping[str, int]], None], /) -> Callable[[], None]:
        """Have `changed` told new revisions; returns what ends that."""

    def remove(self, run: str, /) -> None:
        """Remove a run. Raises `LocalError`."""

    def copy(self, run: str, path: Path, /) -> None:
        """Write a run's database to a new file. Raises `LocalError`."""


def create_app(
    store: Store,
    *,
    token: str | None = None,
    bind: str = LOOPBACK,
    page: Path = PAGE,
) -> Starlette:
    """The ASGI app. `bind`: address it listens on; `token`: asked of everybody; `page`: folder of the built page."""
    asking = Asking(store)
    service = _Service(store, asking)
    routes: list[BaseRoute] = [
        Route("/api/runs", service.list_runs),
        Route("/api/live", service.live),
        Route("/api/runs/{run:path}/curves.csv", service.csv),
        Route("/api/runs/{run:path}/database", service.database),
        *(Route(_place(name), service.answering(question)) for name, question in QUESTIONS.items()),
        Route("/api/runs/{run:path}", service.remove, methods=["DELETE"]),
        Route("/api/{rest:path}", _nothing),
        Mount("/assets", _Assets(directory=page / "assets", check_dir=False)),
        Route("/", _index(page)),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        asking.close()

    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(Access, bind=bind, token=token),
            Middleware(HttpReceiver, accept=store.accept, token=token),
        ],
        exception_handlers={HTTPException: _refused},
        lifespan=lifespan,
    )
    app.state.failures = asking.failures
    return app


def _place(name: str) -> str:
    return "/api/runs/{run:path}" + (f"/{name}" if name else "")


class _Service:
    """The paths below /api."""

    def __init__(self, store: Store, asking: Asking) -> None:
        self._store, self._asking = store, asking

    async def list_runs(self, request: Request) -> Response:
        """Every run."""
        return await self._carefully(
            request, lambda: self._asking.do(lambda: packed(request, {"runs": self._store.runs.list()}))
        )

    async def live(self, _: Request) -> Response:
        """Server-sent events."""
        return live.stream(self._store, lambda: {run["id"]: run["rev"] for run in self._store.runs.list()})

    def answering(self, question: Question) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint of a question."""

        async def endpoint(request: Request) -> Response:
            async def answer() -> Response:
                # Before it is asked: what comes in meanwhile is seen or not, but never taken as seen.
                run = self._store.runs.get(request.path_params["run"])
                asked = Parameters(request.query_params)

                def put(cursor: Cursor) -> Response:
                    found = question(cursor, asked, run, request.path_params)
                    return packed(request, {**found, "rev": run["rev"]})

                return await self._asking.ask(run["id"], put)

            return await self._carefully(request, answer)

        return endpoint

    async def csv(self, request: Request) -> Response:
        """Curves as they were logged."""
        run, asked = request.path_params["run"], Parameters(request.query_params)

        async def write(path: Path) -> None:
            await self._asking.ask(run, lambda cursor: write_csv(cursor, asked, path), _COPYING)

        return await self._carefully(request, lambda: _file(write, "curves.csv", "text/csv; charset=utf-8"))

    async def database(self, request: Request) -> Response:
        """A copy of the run's database, as it is now."""
        run = request.path_params["run"]

        async def write(path: Path) -> None:
            await self._asking.do(lambda: self._store.copy(run, path), _COPYING)

        name = re.sub(r"[^\w.-]+", "_", run) + ".duckdb"
        return await self._carefully(request, lambda: _file(write, name, "application/octet-stream"))

    async def remove(self, request: Request) -> Response:
        """Remove the run for good."""
        run = request.path_params["run"]

        async def answer() -> Response:
            await self._asking.do(lambda: self._store.remove(run))
            return packed(request, {"removed": run})

        return await self._carefully(request, answer)

    async def _carefully(self, request: Request, answer: Callable[[], Awaitable[Response]]) -> Response:
        """What goes wrong is said in one line; of what nobody foresaw, only its type."""
        try:
            return await answer()
        except ParameterError as problem:
            return error(400, str(problem))
        except (NotThereError, UnknownRunError) as problem:
            return error(404, str(problem))
        except LocalError as problem:
            return error(409, str(problem))
        except BusyError:
            return error(503, "too many questions at once: ask again in a second", {"retry-after": "1"})
        except (SlowError, duckdb.InterruptException):
            return error(504, "it took too long to answer: ask for a shorter time, or fewer rows")
        except Exception as problem:  # noqa: BLE001 - whatever it is, the client is told one line, and it is counted
            self._asking.note(problem, request.url.path)
            return error(500, f"verl-otel failed to answer ({type(problem).__name__}): its log says more")


async def _file(write: Callable[[Path], Awaitable[None]], name: str, kind: str) -> Response:
    """What is written to a file first is sent from it, and it is removed."""
    folder = tempfile.TemporaryDirectory(prefix="verl-otel-")
    try:
        path = Path(folder.name) / name
        await write(path)
    except BaseException:
        folder.cleanup()
        raise
    headers = {"cache-control": "no-store"}
    return FileResponse(
        path, media_type=kind, filename=name, headers=headers, background=BackgroundTask(folder.cleanup)
    )


async def _nothing(request: Request) -> Response:
    return error(404, f"there is nothing at {request.url.path}")


async def _refused(_: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    return error(status, {404: "there is nothing here", 405: "this can't be asked so"}.get(status, "refused"))


class _Assets(StaticFiles):
    """Files of the page; those whose name changes with their content never change."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        forever = _HASHED.search(path) is not None
        response.headers["cache-control"] = "public, max-age=31536000, immutable" if forever else "no-cache"
        return response


def _index(page: Path) -> Callable[[Request], Awaitable[Response]]:
    async def index(_: Request) -> Response:
        path = page / "index.html"
        if not path.is_file():
            return HTMLResponse(_NOT_BUILT, 503)
        return FileResponse(path, media_type="text/html; charset=utf-8", headers={"cache-control": "no-cache"})

    return index
