"""What one collector holds on this machine: a fleet replayed through it into Prometheus, faster and faster.

Collector and Prometheus are the real ones, with the stack's own configuration; traces go to a second collector that
counts them. The fleet is of a real run on this CPU, with eight GPUs of a stand-in (`tests/stand_ins`).
"""

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import programs
from benchmarks.children import Child
from benchmarks.measuring import Interval, Row
from benchmarks.small_run import small_run, spent
from benchmarks.telling import Tell
from stand_ins import compiled_nvml

SIZE: Final = {"ranks": 1024, "replicas": 128, "trajectories": 8192, "step": 60.0}
"""Of a run whose step takes a minute, which is a quick one."""
FACTORS: Final = (1, 2, 4, 8, 16, 32)
SECONDS: Final = 45.0
TO_SHED: Final = 240.0
"""Seconds at the speed that didn't hold, in which it should refuse."""
LATE: Final = 1.0
"""Seconds from which on a process that sends one request at a time is behind: answers come too late."""
_GPUS: Final = "gpus 8\n" + "".join(f"utilization {one} 50\npower {one} 300000\n" for one in range(8))
_SINK: Final = """
extensions: {health_check: {endpoint: "%s"}}
receivers: {otlp: {protocols: {grpc: {endpoint: "%s"}}}}
exporters: {debug: {}}
service:
  extensions: [health_check]
  telemetry: {logs: {level: error}, metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
"""


def measure(tell: Tell, *, capture: Path | None = None, factors: tuple[int, ...] = FACTORS) -> Iterator[Row]:
    """Rows of the benchmark `gateway`: a minute for each factor, until requests are refused or late.

    `capture`: of a run with GPUs, instead of one made for this (3 minutes). The speed that didn't hold is gone on with
    until requests are refused.
    """
    with tempfile.TemporaryDirectory(prefix="vo-gateway-") as folder:
        base = Path(folder)
        tell(0, len(factors) + 1)
        source = capture or _run_with_gpus(base)
        tell(1, len(factors) + 1)
        with _stack(base) as (store, gateway, sink), Child("benchmarks.sides.replay", patience=900) as generator:
            processes = generator.ask("prepare", capture=str(source), **SIZE)
            for place, factor in enumerate(factors):
                found = _level(generator, factor, SECONDS, store, gateway, sink)
                yield _row(factor, processes, found)
                tell(place + 2, len(factors) + 1)
                if found["refused"] > 0 or found["late"] > LATE:
                    break
            if not found["refused"]:
                yield _row(factor, processes, _level(generator, factor, TO_SHED, store, gateway, sink))


def _row(factor: int, processes: int, found: dict[str, float]) -> Row:
    verdict = "answers come late" if found["late"] > LATE else "holds"
    if found["refused"] > 0:
        verdict = f"refuses after {found['first_refused']:.0f} s"
    note = (
        f"{verdict}; {processes} processes, {found['requests']:,.0f} requests/s ({found['refused']:,.0f} refused), "
        f"{found['bytes'] / 1e6:.1f} MB/s, {found['metrics']:,.0f} points/s, {found['traces']:,.0f} spans/s; "
        f"99 % answered within {1000 * found['answer']:.0f} ms; collector {found['memory']:,.0f} MiB, "
        f"{found['waiting']:,.0f} items waited at most; CPU of generator {found['cpu']:.2f}, Prometheus "
        f"{found['prometheus']:.2f}, trace sink {found['sink']:.2f} cores; {found['series']:,.0f} series"
    )
    what = f"1,024 ranks and 128 replicas, x{factor}: the collector's CPU"
    return Row("gateway", what, Interval.exactly(found["gateway"]), " cores", note=note)


def _level(generator: Child, factor: int, seconds: float, store: Any, gateway: Any, sink: Any) -> dict[str, float]:
    """Replay at one speed for so long; CPU in cores, memory in MiB at its most."""
    before = {name: spent(one.pid) for name, one in (("prometheus", store), ("gateway", gateway), ("sink", sink))}
    begin, most, done = time.monotonic(), [0.0], threading.Event()
    watch = threading.Thread(target=_watch, args=(gateway.pid, most, done))
    watch.start()
    try:
        found: dict[str, float] = generator.ask("replay", url=gateway.url, factor=factor, seconds=seconds)
    finally:
        done.set()
        watch.join()
    took = time.monotonic() - begin
    for name, one in (("prometheus", store), ("gateway", gateway), ("sink", sink)):
        found[name] = (spent(one.pid) - before[name]) / took
    time.sleep(20)  # the collector tells of itself each 15 s
    waiting = store.query(f"max_over_time(sum(otelcol_exporter_queue_size)[{took + 20:.0f}s:5s])")
    series = store.get("status/tsdb")["headStats"]["numSeries"]
    return {**found, "memory": most[0], "waiting": float(waiting[0]["value"][1]) if waiting else 0.0, "series": series}


def _watch(pid: int, most: list[float], done: threading.Event) -> None:
    while not done.wait(0.5):
        status = Path(f"/proc/{pid}/status").read_text()
        # Without the pages of its queue's file, which the kernel takes back where it needs them.
        own = int(status.partition("RssAnon:")[2].split()[0]) / 1024
        most[0] = max(most[0], own)


@contextlib.contextmanager
def _stack(base: Path) -> Iterator[tuple[Any, Any, Any]]:
    """Prometheus, the collector, and the collector that takes its traces."""
    health, address = programs.free_address(), programs.free_address()
    for name in ("sink", "stack"):
        (base / name).mkdir()
    (base / "sink.yaml").write_text(_SINK % (health, address))
    command = [str(programs.built("collector", programs.build_collector)), f"--config={base / 'sink.yaml'}"]
    with (
        programs.running(command, base / "sink", f"http://{health}/") as sink,
        programs.prometheus(base / "stack") as store,
        programs.collector(base / "stack", store.url, address) as gateway,
    ):
        yield store, gateway, sink


def _run_with_gpus(base: Path) -> Path:
    """Three steps of GRPO on this CPU, observed, with GPUs of a stand-in; returns its capture."""
    (base / "gpus").write_text(_GPUS)
    library = compiled_nvml(base)
    return small_run(base, {"FAKE_NVML": str(base / "gpus"), "LD_LIBRARY_PATH": str(library)})
