"""Server-sent events: which runs have new data, at most once a second."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Protocol

from starlette.responses import StreamingResponse

INTERVAL: Final = 1.0
"""Seconds between two of them."""
SILENCE: Final = 15.0
"""Seconds after which something is sent all the same, so that a connection that is dead is found."""


class Changing(Protocol):
    """What tells of changes."""

    def subscribe(self, changed: Callable[[Mapping[str, int]], None]) -> Callable[[], None]:
        """Have `changed` told new revisions of runs, from any thread; returns what ends that."""


class _News:
    """Revisions that were not sent yet."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._revs: dict[str, int] = {}
        self._there = asyncio.Event()

    def tell(self, revs: Mapping[str, int]) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it whoever listened
            self._loop.call_soon_threadsafe(self._add, dict(revs))

    def _add(self, revs: dict[str, int]) -> None:
        self._revs |= revs
        self._there.set()

    async def taken(self, patience: float) -> dict[str, int]:
        """All there is, once there is any; none after so many seconds."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._there.wait(), patience)
        self._there.clear()
        revs, self._revs = self._revs, {}
        return revs


async def events(store: Changing, now: Callable[[], Mapping[str, int]]) -> AsyncIterator[bytes]:
    """First how it stands by `now`, then what changes."""
    news = _News()
    end = store.subscribe(news.tell)
    try:
        yield _event(now())
        while True:
            revs = await news.taken(SILENCE)
            yield _event(revs) if revs else b": still here\n\n"
            await asyncio.sleep(INTERVAL)
    finally:
        end()


def _event(revs: Mapping[str, Any]) -> bytes:
    return f"event: runs\ndata: {json.dumps(revs)}\n\n".encode()


def stream(store: Changing, now: Callable[[], Mapping[str, int]]) -> StreamingResponse:
    """The answer to `/api/live`."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(events(store, now), media_type="text/event-stream", headers=headers)
