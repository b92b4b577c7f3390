"""What `verl-otel up` takes in on this machine beside the generator: many processes' OTLP over HTTP, nothing lost.

Requests are those of a real run's processes, encoded beforehand, sent over a connection for each process. A request
counts once it was answered 200; the databases are counted afterwards. How long they need to catch up is said, too.
"""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from typing_extensions import Self

from benchmarks.children import Child
from benchmarks.measuring import Interval, Row, Verdict
from benchmarks.small_run import small_run, spent
from benchmarks.telling import Tell
from verl_otel import local
from verl_otel.local import backend
from verl_otel.local.store.folder import Folder

SPANS: Final = 20_000.0
POINTS: Final = 100_000.0
SECONDS: Final = 60.0
MEMORY: Final = 1024.0
"""Spans and points a second, and MiB that the backend may use."""
PROCESSES: Final = 16
"""Of each kind: replicas, agent workers, reward workers."""
_PATIENCE: Final = 300.0
_MIB: Final = 1 << 20


def measure(tell: Tell, *, capture: Path | None = None, seconds: float = SECONDS) -> Iterator[Row]:
    """Rows of the benchmark `local ingest`. `capture`: of a run, instead of one made for this (2 minutes)."""
    with tempfile.TemporaryDirectory(prefix="vo-ingest-") as made:
        base = Path(made)
        tell(0, 3)
        source = capture or small_run(base)
        tell(1, 3)
        folder = Folder(base / "backend")
        served = backend.start(folder)
        try:
            with Child("benchmarks.sides.ingest", patience=_PATIENCE) as generator, _Watch(served.pid) as watch:
                size = {"processes": PROCESSES, "spans": SPANS, "points": POINTS}
                generator.ask("prepare", capture=str(source), **size)
                begin = time.monotonic()
                sent = generator.ask("replay", url=served.url, seconds=seconds)
                took = time.monotonic() - begin
                tell(2, 3)
                behind = _caught_up(folder)
        finally:
            backend.stop(folder)
        yield from _rows(folder, sent, took, behind, watch)


def _rows(folder: Folder, sent: dict[str, float], took: float, behind: float, watch: "_Watch") -> Iterator[Row]:
    stored = _stored(folder)
    note = (
        f"{took:.0f} s: {sent['requests']:,.0f} requests/s, {sent['bytes'] / 1e6:.0f} MB/s; {sent['refused']:,.0f} "
        f"refused; 99 % answered within {1000 * sent['answer']:.0f} ms; in the databases {behind:.0f} s later; the "
        f"rate aimed at takes {watch.cpu * SPANS / sent['sent_traces']:.2f} cores of the backend's"
    )
    # It sends when a request is due and its connection is free: what isn't sent in time is a rate that didn't hold.
    for signal, what, wanted in (("traces", "spans", SPANS), ("metrics", "points", POINTS)):
        verdict = Verdict.WITHIN if sent[signal] >= 0.97 * wanted and not sent["refused"] else Verdict.OVER
        rate = Interval.exactly(sent[signal] / 1000)
        unit = f"k {what}/s"
        yield Row("local ingest", f"{what} taken in, both at once", rate, unit, wanted / 1000, note, verdict)
        # Over the time until all of it was in the databases: what can go on for hours.
        lasting = stored[signal] / (took + behind)
        verdict = Verdict.WITHIN if lasting >= 0.97 * wanted else Verdict.OVER
        rate, note = Interval.exactly(lasting / 1000), ""
        yield Row("local ingest", f"{what} stored, both at once", rate, unit, wanted / 1000, note, verdict)
    for signal in ("traces", "metrics"):
        wrong = abs(round(sent[f"sent_{signal}"]) - stored[signal])
        note = f"{stored[signal]:,} of {signal} stored"
        verdict = Verdict.OVER if wrong else Verdict.WITHIN
        yield Row("local ingest", f"{signal} lost or twice", Interval.exactly(wrong), "", 0, note, verdict)
    memory = watch.most / _MIB
    verdict = Verdict.WITHIN if memory <= MEMORY else Verdict.OVER
    yield Row("local ingest", "memory of the backend", Interval.exactly(memory), " MiB", MEMORY, "", verdict)


def _caught_up(folder: Folder) -> float:
    """Seconds until all that was accepted is in the databases."""
    begin = time.monotonic()
    while time.monotonic() - begin < _PATIENCE:
        segment, offset = map(int, (folder.journal / "taken").read_text().split())
        last = max(folder.journal.glob("*.otlp"))
        if int(last.stem) == segment and last.stat().st_size == offset:
            break
        time.sleep(0.2)
    return time.monotonic() - begin


def _stored(folder: Folder) -> dict[str, int]:
    found = {"traces": 0, "metrics": 0}
    for path in folder.runs.glob("*.duckdb"):
        with local.open(path) as connection:
            for signal, tables in (("traces", ("spans",)), ("metrics", ("points", "histograms"))):
                for table in tables:
                    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
                    found[signal] += row[0] if row else 0
    return found


class _Watch:
    """CPU seconds that a process used meanwhile, and the most memory it had, in bytes."""

    def __init__(self, pid: int) -> None:
        self.cpu, self.most = 0.0, 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._before = spent(self._pid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.2):
            self.cpu = spent(self._pid) - self._before
            resident = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            self.most = max(self.most, resident)
