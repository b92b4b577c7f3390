"""Questions in threads of their own: a bounded number at a time, each for a bounded time, none on the event loop."""

import asyncio
import functools
import logging
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeVar

import duckdb

from verl_otel.local.queries.reading import Cursor

logger = logging.getLogger(__name__)

THREADS: Final = 4
MOST_WAITING: Final = 64
SECONDS: Final = 20.0
_AGAIN: Final = 0.2
T = TypeVar("T")


class BusyError(Exception):
    """Too many questions wait already."""


class SlowError(Exception):
    """A question took too long, and was ended."""


class Readable(Protocol):
    """Where questions are asked."""

    def reading(self, run: str) -> AbstractContextManager[Cursor]:
        """A cursor on a run's database. Raises `LocalError`."""


class Asking:
    """`failures`: how often something went wrong that nobody foresaw, by type."""

    def __init__(self, store: Readable, threads: int = THREADS, waiting: int = MOST_WAITING) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="verl-otel-query")
        self._waiting, self._most = 0, waiting
        self.failures: Counter[str] = Counter()

    def close(self) -> None:
        """Wait for what is asked now; nothing more is."""
        self._pool.shutdown(cancel_futures=True)

    def note(self, failure: Exception, where: str) -> None:
        """Count what nobody foresaw, and log it with its traceback, which the client never sees."""
        self.failures[type(failure).__name__] += 1
        logger.error("%s failed", where, exc_info=failure)

    async def ask(self, run: str, question: Callable[[Cursor], T], seconds: float = SECONDS) -> T:
        """What `question` answers with a cursor on the run's database. Raises `BusyError`, `SlowError`."""
        ending = _Ending()
        return await self.do(functools.partial(self._put, run, question, ending), seconds, ending.end)

    async def do(self, work: Callable[[], T], seconds: float = SECONDS, end: Callable[[], Any] | None = None) -> T:
        """Work in a thread; `end` is called when it takes too long. Raises `BusyError`, `SlowError`."""
        if self._waiting >= self._most:
            raise BusyError
        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        future.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(future), seconds)
        except asyncio.TimeoutError:
            if end is not None:
                self._end(future, end)
            future.add_done_callback(_looked_at)
            raise SlowError from None

    def _end(self, future: "asyncio.Future[Any]", end: Callable[[], Any]) -> None:
        """Again and again: a question may put more than one query."""
        if not future.done():
            end()
            asyncio.get_running_loop().call_later(_AGAIN, self._end, future, end)

    def _done(self, _: "asyncio.Future[Any]") -> None:
        self._waiting -= 1

    def _put(self, run: str, question: Callable[[Cursor], T], ending: "_Ending") -> T:
        with self._store.reading(run) as cursor, ending.of(cursor):
            return question(cursor)


def _looked_at(future: "asyncio.Future[Any]") -> None:
    """What an interrupted query raises is of no more interest, and isn't logged as never retrieved."""
    if not future.cancelled():
        future.exception()


class _Ending:
    """Interrupts a query from another thread; one that hasn't begun yet doesn't begin."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cursor: Cursor | None = None
        self._ended = False

    def of(self, cursor: Cursor) -> "_Ending":
        """Of this cursor, while it lasts."""
        with self._lock:
            if self._ended:
                raise duckdb.InterruptException("it is too late")
            self._cursor = cursor
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._cursor = None

    def end(self) -> None:
        """Interrupt it."""
        with self._lock:
            self._ended = True
            if self._cursor is not None:
                self._cursor.interrupt()
