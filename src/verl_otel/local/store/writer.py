"""The thread that takes the journal into the databases."""

import contextlib
import gc
import itertools
import logging
import sys
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import duckdb

from verl_otel import semconv
from verl_otel.local.errors import LocalError
from verl_otel.local.journal import Journal, Position, Record, as_record
from verl_otel.local.otlp.requests import REQUESTS
from verl_otel.local.store.attributes import plain, text_or_none
from verl_otel.local.store.database import Databases
from verl_otel.local.store.folder import OTHER, Folder
from verl_otel.local.store.run_writer import Part, RunWriter
from verl_otel.local.store.runs import Runs
from verl_otel.local.store.shapes import only_resource

logger = logging.getLogger(__name__)

PAUSE: Final = 0.5
"""Seconds between batches, while there is not more than one to take."""
BATCH: Final = 16 << 20
"""Bytes of one."""
_AGAIN: Final = 5.0
_SUMMARY: Final = 1.0
_SILENT: Final = 30.0
"""Seconds until a failed write is tried again, between summaries, until a silent run's database is closed."""
_NOT_NOW: Final = (LocalError, OSError, duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException)
"""What has nothing to do with the data."""
_SWITCH: Final = 0.0005
_COLLECT: Final = 20_000
_MOST_RESOURCES: Final = 20_000
_FIELDS: Final = {"traces": "resource_spans", "metrics": "resource_metrics", "logs": "resource_logs"}


class Writer:
    """From `start` to `stop`, which has it take what is there."""

    def __init__(
        self,
        folder: Folder,
        journal: Journal,
        databases: Databases,
        runs: Runs,
        changed: Callable[[Mapping[str, int]], None],
    ) -> None:
        """`changed`: told the new revision of each run that has more data, from the writer's thread."""
        self._folder, self._journal, self._databases, self._runs = folder, journal, databases, runs
        self._changed = changed
        self._writers: dict[str, RunWriter] = {}
        self._run_of: OrderedDict[bytes, str] = OrderedDict()
        self._late: dict[str, Position] = {}  # runs that can't be written now, from where on
        self._tried = 0.0
        self._used: dict[str, float] = {}
        self._saved: dict[str, float] = {}
        self._unsaved: set[str] = set()
        self._position = journal.start
        self._switch, self._thresholds = sys.getswitchinterval(), gc.get_threshold()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        databases.on_close = self._forget

    def start(self) -> None:
        """Begin."""
        # It works in Python for long: at the usual interval whoever answers requests would wait 5 ms each time.
        sys.setswitchinterval(_SWITCH)
        # A batch's rows are in no cycle, and as many as would have them looked through again and again.
        gc.set_threshold(_COLLECT, *self._thresholds[1:])
        self._thread.start()

    def stop(self) -> None:
        """End, once all that is there was taken."""
        self._stop.set()
        self._thread.join()
        sys.setswitchinterval(self._switch)
        gc.set_threshold(*self._thresholds)

    @property
    def is_behind(self) -> bool:
        """Whether there is something that no database has."""
        return self._journal.unread > 0

    def _forget(self, run: str) -> None:
        self._writers.pop(run, None)

    def _work(self) -> None:
        while True:
            stopping = self._stop.is_set()
            begin = time.monotonic()
            try:
                more = self._turn()
            except Exception:
                # Whatever it is, the journal has it still.
                logger.exception("the journal can't be taken into the databases; it is tried again")
                more = False
                self._writers.clear()
                self._stop.wait(_AGAIN)
            if stopping and not more:
                self._tidy()
                return
            if not more:
                self._stop.wait(max(0.0, begin + PAUSE - time.monotonic()))

    def _turn(self) -> bool:
        """Take a batch; whether there was a full one."""
        self._retry()
        self._tidy()
        if not self._journal.wait(self._position, 0.0 if self._stop.is_set() else PAUSE):
            return False
        records = self._journal.read(self._position, BATCH)
        end = records[-1].end
        revs = {}
        for run, parts in self._by_run(records).items():
            if run not in self._late and (rev := self._write(run, parts, self._position, end)):
                revs[run] = rev
        self._position = end
        self._journal.take(min([end, *self._late.values()]))
        self._tell(revs)
        return sum(len(one.body) for one in records) >= BATCH

    def _write(self, run: str, parts: Sequence[Part], start: Position, end: Position) -> int | None:
        """Write what is of a run; its new revision. One that can't be written is left for later, and said."""
        try:
            try:
                return self._write_now(run, parts, end)
            except _NOT_NOW:
                raise
            except Exception:
                logger.exception("run %s: something of a batch can't be stored", run)
                return self._write_each(run, parts)
        except _NOT_NOW as error:
            logger.warning("run %s can't be written now, its data waits: %s", run, str(error).splitlines()[0])
            self._late[run] = start
            self._tried = time.monotonic()
            with self._databases.closed(run):
                return None

    def _write_now(self, run: str, parts: Sequence[Part], end: Position) -> int | None:
        with self._databases.writing(run) as connection:
            writer = self._writers.get(run)
            if writer is None:
                writer = self._writers[run] = RunWriter(run, connection)
            try:
                wrote = writer.write(connection, parts, end, self._journal.start.segment)
            except BaseException:
                self._forget(run)
                raise
        self._used[run] = time.monotonic()
        if not wrote:
            return None
        self._runs.note(writer.summary)
        self._unsaved.add(run)
        return writer.summary.rev

    def _write_each(self, run: str, parts: Sequence[Part]) -> int | None:
        """Record by record; what can't be stored is set aside, so that it doesn't keep the rest from it."""
        rev = None
        for end, some in itertools.groupby(parts, lambda one: one.end):
            group = list(some)
            try:
                rev = self._write_now(run, group, end) or rev
            except _NOT_NOW:
                raise
            except Exception:
                logger.exception("run %s: set aside in %s", run, self._folder.set_aside)
                with self._folder.set_aside.open("ab") as file:
                    for one in group:
                        file.write(as_record(one.signal, wrapped(one)))
        return rev

    def _retry(self) -> None:
        """Catch up with runs that couldn't be written."""
        if not self._late or time.monotonic() - self._tried < _AGAIN:
            return
        for run, position in list(self._late.items()):
            del self._late[run]
            while run not in self._late and position < self._position:
                records = self._journal.read(position, BATCH, self._position)
                if not records:
                    break
                end = records[-1].end
                parts = self._by_run(records).get(run, [])
                if parts and (rev := self._write(run, parts, position, end)):
                    self._tell({run: rev})
                position = end
        self._journal.take(min([self._position, *self._late.values()]))

    def _tell(self, revs: Mapping[str, int]) -> None:
        if revs:
            self._changed({run: rev for run, rev in revs.items() if run != OTHER})

    def _tidy(self) -> None:
        """Save summaries, once a second each, and close what is out of use: others may want to open it."""
        now, stopping = time.monotonic(), self._stop.is_set()
        for run in list(self._unsaved):
            if stopping or now - self._saved.get(run, -_SUMMARY) >= _SUMMARY:
                self._saved[run] = now
                with contextlib.suppress(OSError):  # a full disk: the database has it, too
                    self._runs.save(run)
                    self._unsaved.discard(run)
        for run in [run for run, used in self._used.items() if now - used > _SILENT]:
            del self._used[run]
            self._databases.rest(run)

    def _by_run(self, records: Sequence[Record]) -> dict[str, list[Part]]:
        found: dict[str, list[Part]] = defaultdict(list)
        for signal, body, end in records:
            if signal == "metrics" and (resource := only_resource(body)) is not None and resource in self._run_of:
                found[self._run_of[resource]].append(Part(signal, resource, None, end, body))
                continue
            request = REQUESTS[signal].FromString(body)
            for told in getattr(request, _FIELDS[signal]):
                resource = told.resource.SerializeToString()
                found[self._run(resource, told.resource)].append(Part(signal, resource, told, end))
        return found

    def _run(self, resource: bytes, told: Any) -> str:
        run = self._run_of.get(resource)
        if run is None:
            run = text_or_none(plain(told.attributes).get(semconv.RUN_ID)) or OTHER
            self._run_of[resource] = run
            if len(self._run_of) > _MOST_RESOURCES:
                self._run_of.popitem(last=False)
        return run


def wrapped(part: Part) -> bytes:
    """As a request of its own."""
    request = REQUESTS[part.signal]()
    getattr(request, _FIELDS[part.signal]).append(part.parsed())
    return bytes(request.SerializeToString())
