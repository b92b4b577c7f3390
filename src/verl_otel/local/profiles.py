"""What verl's profilers wrote: which files belong to a run, and torch's traces of many ranks as one, on one clock."""

import contextlib
import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from verl_otel import semconv
from verl_otel.local import perfetto

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TRACES: Final = (".json", ".json.gz")
_OTHERS: Final = (".nsys-rep", ".qdrep", ".sqlite", ".pickle", ".pkl", ".html", ".prof", ".db", ".csv")
_MOST: Final = 10_000
"""Files of a folder that are looked at."""
_FRESH: Final = 10
"""Seconds for which a folder isn't looked through again: it may be on a shared disk."""
_AROUND: Final = 600 * 10**9
"""A file is a capture's if it was written at most so long (ns) before or after the capture was told of."""
_CAPTURES: Final = """
    SELECT time, attributes FROM events WHERE name = $event AND (attributes ->> $path) IS NOT NULL
    UNION ALL
    SELECT "end", attributes FROM spans WHERE (attributes ->> $path) IS NOT NULL
"""
_STEP: Final = re.compile(r"step[-_]?(\d+)")
_RANK: Final = re.compile(r"rank[-_]?(\d+)")
_ROLE: Final = re.compile(r"^([A-Za-z][A-Za-z-]*)_")
_EPOCH: Final = 10**15
"""Microseconds above this are since 1970; below, since something that the file doesn't say."""
_ARROWS: Final = 1 << 32
_THREADS: Final = 10**9
"""Above the number of any thread of a system's."""


@dataclass(frozen=True)
class ProfileFile:
    """A file of a profiler's; None where neither its name nor a capture says. `mergeable`: torch's, into Perfetto."""

    tool: str
    path: str
    step: int | None
    rank: int | None
    role: str | None
    bytes: int
    mergeable: bool


@dataclass(frozen=True)
class _Capture:
    """What a rank told of what it recorded. `time`: ns since the epoch, after it was written."""

    time: int
    tool: str | None
    path: str
    step: int | None
    rank: int | None
    role: str | None


def found(database: "DuckDBPyConnection") -> list[dict[str, Any]]:
    """The files of a run that are still there, as the API answers them; of other machines only what is shared."""
    captures = _captures(database)
    files: dict[str, ProfileFile] = {}
    for folder in {one.path for one in captures}:
        theirs = [one for one in captures if one.path == folder]
        for path in _files(folder, int(time.monotonic() // _FRESH)):
            if (one := _of(path, theirs)) is not None:
                files[one.path] = one
    order = sorted(files.values(), key=lambda one: (one.step or 0, one.rank or 0, one.path))
    return [asdict(one) for one in order]


def of_step(database: "DuckDBPyConnection", step: int | None) -> list[Path]:
    """Torch's traces of a step, or of all."""
    files = (one for one in found(database) if one["mergeable"])
    return [Path(one["path"]) for one in files if step is None or one["step"] == step]


def described(path: Path) -> ProfileFile:
    """What a file's name says of it. Raises `OSError` if it isn't there."""
    name = path.name
    step, rank, role = _STEP.search(name), _RANK.search(name), _ROLE.match(name)
    mergeable = name.endswith(_TRACES)
    return ProfileFile(
        "torch" if mergeable else path.suffix.removeprefix("."),
        str(path),
        int(step[1]) if step else None,
        int(rank[1]) if rank else None,
        role[1] if role and not role[1].startswith(("rank", "step", "prof")) else None,
        path.stat().st_size,
        mergeable,
    )


def merged(
    files: Sequence[ProfileFile], first: int, zero: int, say: Callable[[str], None] = lambda _: None
) -> Iterator[dict[str, Any]]:
    """Events of Perfetto's out of torch's traces; processes are numbered from `first`, times are after `zero` (ns).

    Each file is read and given before the next is. `say` is told of those that can't be read, or have no clock.
    """
    number = first
    for index, one in enumerate(files):
        try:
            with perfetto.opened(Path(one.path), "r") as file:
                read = json.load(file)
            begin, given = _clock(read, zero), read["traceEvents"]
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            say(f"{one.path} is left out: it can't be read ({type(error).__name__})")
            continue
        if begin is None:
            say(f"{one.path} is left out: it doesn't say by which clock its times are")
            continue
        rank = (read.get("distributedInfo") or {}).get("rank", one.rank)
        yield from _renumbered(given, replace(one, rank=rank), _Numbers(number, index), (begin - zero) / 1e3)
        number += len({str(event.get("pid", "")) for event in given})


class _Numbers:
    """Numbers of processes and threads in a file of many, for what stands in one of them."""

    def __init__(self, first: int, index: int) -> None:
        self._first, self._index = first, index
        self._processes: dict[str, int] = {}
        self._threads: dict[tuple[str, str], int] = {}

    def process(self, pid: Any) -> tuple[int, bool]:
        """Its number, and whether it is new."""
        is_new = str(pid) not in self._processes
        return self._processes.setdefault(str(pid), self._first + len(self._processes)), is_new

    def thread(self, pid: Any, tid: Any) -> tuple[int, bool]:
        """Its number, and whether it needs a name: it had a text for a number."""
        key = (str(pid), str(tid))
        is_new = key not in self._threads
        number = tid if isinstance(tid, int) else _THREADS + len(self._threads)
        return self._threads.setdefault(key, number), is_new and not isinstance(tid, int)

    def arrow(self, number: Any) -> Any:
        """Arrows of two files must not meet."""
        return number + self._index * _ARROWS if isinstance(number, int) else f"{self._index}:{number}"


def _renumbered(
    given: list[dict[str, Any]], one: ProfileFile, numbers: _Numbers, shift: float
) -> Iterator[dict[str, Any]]:
    names, labels = _told(given, "process_name", "name"), _told(given, "process_labels", "labels")
    for event in given:
        if event.get("name") in ("process_name", "process_labels", "process_sort_index"):
            continue
        pid, tid = event.get("pid", ""), event.get("tid", "")
        process, is_new = numbers.process(pid)
        if is_new:
            what = " ".join(filter(None, (names.get(str(pid), str(pid)), labels.get(str(pid)))))
            named = {"name": f"{_who(one)}: {what}".removesuffix(": ")}
            yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": named}
            yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}
        thread, needs_name = numbers.thread(pid, tid)
        if needs_name:
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": str(tid)}}
        moved = {**event, "pid": process, "tid": thread}
        if "ts" in event:
            moved["ts"] = float(event["ts"]) + shift
        if "id" in event:
            moved["id"] = numbers.arrow(event["id"])
        yield moved


def _told(given: list[dict[str, Any]], name: str, what: str) -> dict[str, str]:
    """Of each process, by the text of its number."""
    return {str(one.get("pid")): str(one["args"][what]) for one in given if one.get("name") == name}


def _who(one: ProfileFile) -> str:
    if one.rank is None:
        return Path(one.path).name
    return f"rank {one.rank}" + (f" {one.role}" if one.role else "")


def _clock(read: dict[str, Any], zero: int) -> int | None:
    """Where its times begin, in ns since the epoch; None if it can't be known."""
    if (base := read.get("baseTimeNanoseconds")) is not None:
        return int(base)
    times = [float(event["ts"]) for event in read["traceEvents"] if "ts" in event]
    return 0 if times and min(times) > _EPOCH else None


def _captures(database: "DuckDBPyConnection") -> list[_Capture]:
    captures = []
    # A key that holds dots, as a path in JSON.
    asked = {"event": semconv.EVENT_PROFILE, "path": f'$."{semconv.PROFILER_PATH}"'}
    for at, kept in database.execute(_CAPTURES, asked).fetchall():
        told = json.loads(kept)
        values = (told.get(name) for name in (semconv.STEP, semconv.RANK, semconv.ROLE))
        captures.append(_Capture(at, told.get(semconv.PROFILER_TOOL), str(told[semconv.PROFILER_PATH]), *values))
    return captures


@functools.lru_cache(maxsize=16)
def _files(folder: str, moment: int) -> list[Path]:
    """What is there at a moment, all of which is asked for again and again while a run goes on."""
    del moment
    some: list[Path] = []
    with contextlib.suppress(OSError):
        for path in Path(folder).rglob("*"):
            if len(some) == _MOST:
                break
            if path.name.endswith((*_TRACES, *_OTHERS)) and path.is_file():
                some.append(path)
    return some


def _of(path: Path, captures: list[_Capture]) -> ProfileFile | None:
    """A file with what the capture that it belongs to says of it; None if it belongs to none of the run's."""
    with contextlib.suppress(OSError):
        one, written = described(path), path.stat().st_mtime_ns
        near = [it for it in captures if abs(it.time - written) <= _AROUND]
        near = [it for it in near if _agree(one.rank, it.rank) and _agree(one.step, it.step)]
        if not near:
            return None
        capture = min(near, key=lambda it: abs(it.time - written))
        return replace(
            one,
            tool=capture.tool or one.tool,
            step=one.step if one.step is not None else capture.step,
            rank=one.rank if one.rank is not None else capture.rank,
            role=one.role or capture.role,
            mergeable=one.mergeable and capture.tool in (None, "torch"),
        )
    return None


def _agree(one: int | None, other: int | None) -> bool:
    return one is None or other is None or one == other
