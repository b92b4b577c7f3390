"""Requests that were accepted and are in no database yet: files that are only appended to, and removed once read.

A record is what a capture file has: the signal's first letter, a big-endian length, the request as protobuf. A record
counts once `append` returned: it survives the process at once, and the machine after the next sync. One that a crash
cut is not there. A segment's number never comes again, since databases remember by it what they have.
"""

import contextlib
import os
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from typing_extensions import Self

_HEADER: Final = struct.Struct(">cI")
_LETTERS: Final = {"traces": b"t", "metrics": b"m", "logs": b"l"}
_SIGNALS: Final = {letter: signal for signal, letter in _LETTERS.items()}
_SUFFIX: Final = ".otlp"
_TAKEN: Final = "taken"
_MOST_KNOWN: Final = 1 << 15
_LOOK: Final = 0.5  # seconds between looks at the disk


@dataclass(frozen=True)
class Limits:
    """Bytes of a segment, bytes unread at most, free bytes of the disk at least, seconds until data is on it."""

    segment: int = 64 << 20
    unread: int = 2 << 30
    free: int = 200 << 20
    sync: float = 0.2


class Position(NamedTuple):
    """A place between records; those of later segments are greater."""

    segment: int
    offset: int


class Record(NamedTuple):
    """A request, and the place after it."""

    signal: str
    body: bytes
    end: Position


def as_record(signal: str, body: bytes) -> bytes:
    """A request as it stands in a file."""
    return _HEADER.pack(_LETTERS[signal], len(body)) + body


class JournalFullError(RuntimeError):
    """Nothing more is taken now. `wait`: seconds after which it may be."""

    def __init__(self, reason: str, wait: int) -> None:
        super().__init__(reason)
        self.wait = wait


class Journal:
    """Appended to by many threads, read by one. Use as a context manager. Raises `OSError`."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        """Takes up what an earlier process left in `folder`."""
        self._folder, self._limits = folder, limits or Limits()
        self._known: OrderedDict[int, None] = OrderedDict()
        self._sizes = {number: self._recover(number) for number in self._numbers()}
        self._taken = self._read_taken()
        self._lock = threading.Condition()
        self._ended = threading.Event()
        self._looked = -_LOOK
        self._free = 0
        self._unsynced = self._closed = False
        self._full: list[int] = []  # files of segments that nothing is appended to any more
        self._begin()
        self._syncing = threading.Thread(target=self._sync, name="journal-sync", daemon=True)
        self._syncing.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def unread(self) -> int:
        """Bytes that are in no database yet."""
        taken = self._taken
        every = sum(size for number, size in list(self._sizes.items()) if number >= taken.segment)
        return every - (taken.offset if taken.segment in self._sizes else 0)

    @property
    def start(self) -> Position:
        """Where to go on reading."""
        return self._taken

    def append(self, signal: str, body: bytes) -> None:
        """Keep a request, or one that is just being sent again, its answer lost, once. Raises `JournalFullError`."""
        digest = hash(body)
        with self._lock:
            if digest in self._known or not body:
                return
            self._admit()
            record = as_record(signal, body)
            try:
                if self._sizes[self._number] and self._sizes[self._number] + len(record) > self._limits.segment:
                    self._full.append(self._file)
                    self._begin()
                self._write(record)
            except OSError as error:
                self._full = [one for one in self._full if one != self._file]
                os.ftruncate(self._file, self._sizes[self._number])
                raise JournalFullError(f"the journal can't be written: {error.strerror}", 10) from error
            self._sizes[self._number] += len(record)
            self._unsynced = True
            self._know(digest)
            self._lock.notify_all()

    def wait(self, position: Position, seconds: float) -> bool:
        """Wait until there is something after `position`; False if there is not in time, or it was closed."""
        with self._lock:
            self._lock.wait_for(lambda: self._closed or self._has_after(position), seconds)
            return self._has_after(position)

    def read(self, position: Position, most: int, until: Position | None = None) -> list[Record]:
        """The records after `position` up to about `most` bytes, at least one if there is one; `until`: up to there."""
        found: list[Record] = []
        size = 0
        for number in sorted(one for one in list(self._sizes) if one >= position.segment):
            offset = position.offset if number == position.segment else 0
            for record in self._records(number, offset):
                if until is not None and record.end > until:
                    return found
                found.append(record)
                size += len(record.body)
                if size >= most:
                    return found
        return found

    def take(self, position: Position) -> None:
        """All before `position` is in the databases: files that hold nothing else go."""
        with self._lock:
            self._taken = position
            for number in [one for one in self._sizes if one < position.segment and one != self._number]:
                self._path(number).unlink(missing_ok=True)
                del self._sizes[number]
        # A hint: databases know better what they have. Without it a crash has the files here read from the start.
        new = self._folder / f"{_TAKEN}.new"
        with contextlib.suppress(OSError):
            new.write_text(f"{position.segment} {position.offset}")
            new.replace(self._folder / _TAKEN)

    def close(self) -> None:
        """Bring everything to the disk, or remove it if it was taken; nothing is appended any more."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._lock.notify_all()
        self._ended.set()
        self._syncing.join()
        os.close(self._file)
        if not self.unread:
            for number in self._sizes:
                self._path(number).unlink(missing_ok=True)

    def _admit(self) -> None:
        if self._closed:
            raise JournalFullError("it is shutting down", 1)
        if self.unread >= self._limits.unread:
            raise JournalFullError("more is coming in than can be stored", 5)
        if (now := time.monotonic()) - self._looked >= _LOOK:
            disk = os.statvfs(self._folder)
            self._looked, self._free = now, disk.f_bavail * disk.f_frsize
        if self._free < self._limits.free:
            raise JournalFullError(f"the disk of {self._folder} is full", 30)

    def _write(self, record: bytes) -> None:
        rest = memoryview(record)
        while rest:
            rest = rest[os.write(self._file, rest) :]

    def _begin(self) -> None:
        # By the clock, so that they don't come again even if the folder was emptied.
        last = max((*self._sizes, self._taken.segment), default=0)
        number = max(last + 1, time.time_ns() // 1000)
        self._file = os.open(self._path(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._number, self._sizes[number] = number, 0

    def _has_after(self, position: Position) -> bool:
        size = self._sizes.get(position.segment, 0)
        return size > position.offset or any(size for number, size in self._sizes.items() if number > position.segment)

    def _records(self, number: int, offset: int) -> Iterator[Record]:
        """Of a segment, from a record's start on to what is appended so far."""
        size = self._sizes[number]
        with self._path(number).open("rb") as file:
            file.seek(offset)
            while offset < size:
                letter, length = _HEADER.unpack(file.read(_HEADER.size))
                body = file.read(length)
                offset += _HEADER.size + length
                yield Record(_SIGNALS[letter], body, Position(number, offset))

    def _recover(self, number: int) -> int:
        """The bytes of a segment's whole records."""
        whole = 0
        with self._path(number).open("rb") as file:
            while len(header := file.read(_HEADER.size)) == _HEADER.size:
                letter, length = _HEADER.unpack(header)
                if letter not in _SIGNALS or len(body := file.read(length)) < length:
                    break
                whole += _HEADER.size + length
                self._know(hash(body))
        return whole

    def _know(self, digest: int) -> None:
        self._known[digest] = None
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    def _sync(self) -> None:
        while True:
            # Not the condition: each request wakes whoever waits for that.
            closed = self._ended.wait(self._limits.sync)
            with self._lock:
                files, self._full = self._full, []
                if self._unsynced:
                    files.append(os.dup(self._file))
                self._unsynced = False
            for file in files:
                with contextlib.suppress(OSError):
                    os.fdatasync(file)
                os.close(file)
            if closed:
                return

    def _read_taken(self) -> Position:
        with contextlib.suppress(OSError, ValueError):
            segment, offset = map(int, (self._folder / _TAKEN).read_text().split())
            if offset <= self._sizes.get(segment, 0) or segment not in self._sizes:
                return Position(segment, offset)
        return Position(min(self._sizes, default=0), 0)

    def _numbers(self) -> list[int]:
        return sorted(int(one.stem) for one in self._folder.glob(f"*{_SUFFIX}") if one.stem.isdecimal())

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:018d}{_SUFFIX}"
