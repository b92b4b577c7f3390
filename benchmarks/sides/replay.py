"""The generator of the gateway's benchmark: a connection for each process of a fleet, requests when they are due."""

import asyncio
import random
import statistics
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.children import serve
from benchmarks.fleet import Speaker, Template, kinds, speakers

_FLEET: list[Speaker] = []
_DICE = random.Random(1)  # noqa: S311 - nothing secret


def prepare(capture: str, **size: Any) -> int:
    """Encode the fleet; returns how many processes it has."""
    _FLEET[:] = speakers(Path(capture), kinds(**size))
    return len(_FLEET)


def replay(url: str, factor: float, seconds: float) -> dict[str, float]:
    """Send to an OTLP endpoint for so long, `factor` times as fast as the fleet would; rates are per second.

    `late`: 99th percentile of the seconds by which a request was sent after it was due; a process sends one at a time,
    so that it is late when answers are. `first_refused`: seconds until the first refusal, if there was one.
    """
    return asyncio.run(_Replay(url, factor, seconds).run())


class _Replay:
    def __init__(self, url: str, factor: float, seconds: float) -> None:
        self._address, self._factor, self._seconds = urlsplit(url), factor, seconds
        self._counts: Counter[str] = Counter()
        self._late: list[float] = []
        self._took: list[float] = []
        self._first_refused: list[float] = []
        self._begin = 0.0

    async def run(self) -> dict[str, float]:
        begin = self._begin = time.monotonic()
        spent = time.process_time()
        await asyncio.gather(*(self._speak(one, begin) for one in _FLEET))
        took = time.monotonic() - begin
        rates = {name: count / took for name, count in self._counts.items()}
        return {
            "refused": 0.0,
            **rates,
            "first_refused": min(self._first_refused, default=begin) - begin,
            "cpu": (time.process_time() - spent) / took,
            "late": statistics.quantiles(self._late, n=100)[98],
            "answer": statistics.quantiles(self._took, n=100)[98],
        }

    async def _speak(self, speaker: Speaker, begin: float) -> None:
        """Send this process's requests, one at a time, from a moment of its own on."""
        due = [
            (begin + _DICE.random() * every / self._factor, place) for place, (every, _) in enumerate(speaker.requests)
        ]
        reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port)
        while True:
            when, place = min(due)
            if when > begin + self._seconds:
                break
            await asyncio.sleep(max(0.0, when - time.monotonic()))
            every, template = speaker.requests[place]
            due[place] = (when + every / self._factor, place)
            await self._send(reader, writer, template, when)
        writer.close()

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, template: Template, when: float
    ) -> None:
        start = time.monotonic()
        self._late.append(start - when)
        body = template.stamp(time.time_ns(), _DICE)
        head = (
            f"POST {template.path} HTTP/1.1\r\nHost: {self._address.netloc}\r\n"
            f"Content-Type: application/x-protobuf\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        if "content-length:" in answer:
            await reader.readexactly(int(answer.partition("content-length:")[2].split()[0]))
        self._took.append(time.monotonic() - start)
        accepted = " 200 " in answer.partition("\r\n")[0]
        self._counts["requests"] += 1
        self._counts["bytes"] += len(body)
        self._counts[template.path.removeprefix("/v1/")] += template.items if accepted else 0
        if not accepted:
            self._counts["refused"] += 1
            self._first_refused.append(time.monotonic())


if __name__ == "__main__":
    serve(prepare=prepare, replay=replay)
