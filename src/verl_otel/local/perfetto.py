"""Spans as a file for Perfetto (ui.perfetto.dev) and Chrome's tracing: its JSON, with numbers for processes and lanes.

A row of Perfetto's holds only what is nested. So what a process did in turn (phases, worker calls) is a thread for each
lane, and what ran at once (trajectories, requests) is an asynchronous row for each, as many as overlap.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, TextIO, cast

from verl_otel import semconv

_CONCURRENT: Final = "requests"


@dataclass(frozen=True)
class Process:
    """One that sent spans; `number`: its number in the database, unique in the run as no pid is."""

    number: int
    name: str
    order: int = 0


@dataclass(frozen=True)
class Slice:
    """A span. `start`, `end`: ns since the epoch. `lane`: its row, None for what runs at once with its like."""

    process: int
    lane: str | None
    name: str
    start: int
    end: int
    span: str
    parent: str | None = None
    error: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)


def events(processes: Sequence[Process], slices: Iterable[Slice], zero: int) -> Iterator[dict[str, Any]]:
    """Perfetto's events: the names of processes and rows first; times in microseconds after `zero` (ns)."""
    rows: dict[tuple[int, str | None], list[Slice]] = {}
    for one in slices:
        rows.setdefault((one.process, one.lane), []).append(one)
    for process in processes:
        yield _named("process_name", process.number, 0, name=process.name)
        yield _named("process_sort_index", process.number, 0, sort_index=process.order)
    threads, requests = count(1), count(1)
    for (process_number, lane), found in sorted(rows.items(), key=lambda row: (row[0][0], row[0][1] or "~")):
        for index, nested in enumerate(in_rows(found)):
            if lane is None:
                yield from _asynchronous(nested, process_number, next(requests), zero)
            else:
                thread = next(threads)
                name = lane if index == 0 else f"{lane} ({index + 1})"
                yield _named("thread_name", process_number, thread, name=name)
                yield _named("thread_sort_index", process_number, thread, sort_index=thread)
                yield from _synchronous(nested, process_number, thread, zero)


def in_rows(slices: Iterable[Slice]) -> list[list[Slice]]:
    """Spread over as few rows as it takes for each row to be nested; a child stays with its parent where it can."""
    rows: list[list[Slice]] = []
    open_: list[list[Slice]] = []
    row_of: dict[str, int] = {}
    for one in sorted(slices, key=lambda it: (it.start, -it.end)):
        theirs = row_of.get(one.parent or "", -1)
        candidates = ([theirs] if theirs >= 0 else []) + [row for row in range(len(rows)) if row != theirs]
        chosen = next((row for row in candidates if _fits(open_[row], one)), None)
        if chosen is None:
            chosen = len(rows)
            rows.append([])
            open_.append([])
        rows[chosen].append(one)
        open_[chosen].append(one)
        row_of[one.span] = chosen
    return rows


def write(file: TextIO, found: Iterable[Mapping[str, Any]], about: Mapping[str, Any]) -> int:
    """Write Perfetto's file, event by event; how many they were. Raises `OSError`."""
    file.write(f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},"traceEvents":[\n')
    number = 0
    for number, event in enumerate(found, 1):
        file.write(("" if number == 1 else ",\n") + json.dumps(event, separators=(",", ":")))
    file.write("\n]}\n")
    return number


def lane_of(name: str, lane: str | None, role: str | None, rank: int | None) -> str | None:
    """The row of a span: its own lane, else its role and rank; None for what runs at once with its like."""
    concurrent = (semconv.SPAN_AGENT, semconv.SPAN_GENERATE_CLIENT, semconv.SPAN_TOOL, semconv.SPAN_GENERATE_SERVER)
    if name.startswith((*concurrent, semconv.SPAN_REWARD, semconv.SPAN_QUEUE)):
        return None
    if lane:
        return lane
    if role is not None:
        return role if rank is None else f"{role}/{rank}"
    return "trainer" if name.startswith(semconv.SPAN_PHASE) or name in semconv.SPAN_NAMES else "other"


def shown_name(name: str) -> str:
    """Without what all names of ours begin with: a row of Perfetto's is narrow."""
    return name.removeprefix("verl.").removeprefix("phase.").removeprefix("worker.")


def opened(path: Path, mode: str) -> TextIO:
    """A text file, by gzip where its name ends so. Raises `OSError`."""
    if path.suffix == ".gz":
        return cast("TextIO", gzip.open(path, f"{mode}t", encoding="utf-8"))
    return cast("TextIO", path.open(mode, encoding="utf-8"))


def _fits(open_: list[Slice], one: Slice) -> bool:
    """Whether it lies within what is open in the row; forgets what has ended."""
    while open_ and open_[-1].end <= one.start:
        open_.pop()
    return not open_ or open_[-1].end >= one.end


def _synchronous(nested: list[Slice], process: int, thread: int, zero: int) -> Iterator[dict[str, Any]]:
    for one, phase in _walk(nested):
        place = {"ph": phase, "pid": process, "tid": thread}
        if phase == "B":
            yield {**place, "ts": (one.start - zero) / 1e3, "name": one.name, "cat": _category(one), "args": _args(one)}
        else:
            yield {**place, "ts": (one.end - zero) / 1e3}


def _asynchronous(nested: list[Slice], process: int, number: int, zero: int) -> Iterator[dict[str, Any]]:
    for one, phase in _walk(nested):
        # One category for all of a row: Perfetto closes by category and id what was opened last.
        place = {"pid": process, "tid": 0, "id": number, "cat": _CONCURRENT, "name": one.name}
        if phase == "B":
            yield {"ph": "b", **place, "ts": (one.start - zero) / 1e3, "args": _args(one)}
        else:
            yield {"ph": "e", **place, "ts": (one.end - zero) / 1e3}


def _walk(nested: list[Slice]) -> Iterator[tuple[Slice, str]]:
    """Beginnings and ends of a row in the order in which Perfetto must read them: at one time, ends come first."""
    open_: list[Slice] = []
    for one in nested:
        while open_ and open_[-1].end <= one.start:
            yield open_.pop(), "E"
        open_.append(one)
        yield one, "B"
    while open_:
        yield open_.pop(), "E"


def _named(kind: str, process: int, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": args}


def _category(one: Slice) -> str:
    return "error" if one.error else str(one.attributes.get(semconv.PHASE) or "verl")


def _args(one: Slice) -> dict[str, Any]:
    return {**one.attributes, "span": one.span, **({"error": True} if one.error else {})}
