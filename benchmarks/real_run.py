"""A real GRPO run of verl on the CPU, with us and without, in pairs, and what we take of its CPU time.

The times are verl's own (its file log), of the same run: same model, data, seeds and machine, one after the other, now
one first and now the other. Both sides use verl's replay buffer with a poll of 10 ms (`sides/real/fast_poll.py`), or
`gen` and `testing` would be multiples of 2 s. With us, everything is exported, to an endpoint in a process of its own.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from run import Run, Running

from benchmarks.children import ROOT, Child, ChildError
from benchmarks.cpu_share import Meters, Spent
from benchmarks.measuring import Interval, Row, Verdict, judge
from benchmarks.telling import Tell
from benchmarks.timings import FIRST, Steps, but_polled, log_ratios, one, phases, ratio, read

BUDGET: Final = 1.01
"""Is to lie within the interval, or above it."""
WIDE: Final = 0.1
"""An interval wider than this would hold nearly any budget."""
SHARE: Final = 1.0
"""Percent of the steps' CPU time."""

_POLL: Final = (
    f"trainer.v1.sampler.custom_sampler.path={ROOT / 'benchmarks' / 'sides' / 'real' / 'fast_poll.py'}",
    "trainer.v1.sampler.custom_sampler.name=FastPollBuffer",
)
_LONGEST: Final = 1200.0


def measure(tell: Tell, *, pairs: int = 4, steps: int = 24) -> Iterator[Row]:
    """Rows of the benchmark `real`: a run takes 2 to 3 minutes, and there are two a pair, and one more."""
    runs = 2 * pairs + 1
    with Child("benchmarks.sides.sink") as sink, tempfile.TemporaryDirectory(prefix="vo-bench-") as folder:
        sent = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.ask("endpoint"), "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}

        def run(number: int, *, observed: bool) -> Steps:
            place, environment = Path(folder) / str(number), sent if observed else {}
            run_one(place, steps, "program" if observed else "off", environment, lambda done: say(number, done))
            return read(place / "metrics.jsonl")

        def say(number: int, done: int) -> None:
            tell(number * steps + done, runs * steps)

        found: list[tuple[Steps, Steps]] = []
        for pair in range(pairs):
            order = (True, False) if pair % 2 else (False, True)
            sides = {observed: run(2 * pair + place, observed=observed) for place, observed in enumerate(order)}
            found.append((sides[True], sides[False]))
        yield from rows(found)
        (meters := Path(folder) / "meters").mkdir()
        yield share(_metered(Path(folder) / "held", meters, steps, sent, lambda done: say(runs - 1, done)))


def rows(pairs: list[tuple[Steps, Steps]]) -> Iterator[Row]:
    """The comparison of the times of pairs of runs (with us, without)."""
    yield _row("all phases but gen and testing", pairs, but_polled)
    for name in phases([run for pair in pairs for run in pair]):
        if log_ratios(pairs, one(name)):  # a step of both sides has it
            yield _row(f"phase {name}", pairs, one(name))


def _row(what: str, pairs: list[tuple[Steps, Steps]], time: Callable[[Mapping[str, float]], float]) -> Row:
    logarithms = log_ratios(pairs, time)
    measured = ratio(logarithms)
    both = [sum(time(step) for run in side for step in run.values()) for side in zip(*pairs, strict=True)]
    note = f"{both[0]:.1f} s against {both[1]:.1f} s in {sum(map(len, logarithms))} steps of {len(logarithms)} pairs"
    verdict = Verdict.OVER if measured.low > BUDGET else Verdict.WITHIN
    if verdict is Verdict.WITHIN and measured.high > BUDGET and measured.high - measured.low > WIDE:
        verdict = Verdict.INCONCLUSIVE
    return Row("real", f"GRPO on CPU, {what} / without us", measured, "x", BUDGET, note, verdict)


def share(spent: Spent) -> Row:
    """Our part of the CPU time of the steps."""
    ours = Interval.exactly(100 * (spent.threads + spent.wrappers) / spent.process)
    note = f"threads {spent.threads:.2f} s and wrappers {spent.wrappers:.3f} s of {spent.process:.1f} s, all processes"
    what = "GRPO on CPU, our threads and wrappers of the steps' CPU time"
    return Row("real", what, ours, " %", SHARE, note, judge(ours, SHARE))


def _metered(place: Path, folder: Path, steps: int, sent: Mapping[str, str], say: Callable[[int], None]) -> Spent:
    meters = Meters(folder)
    begun = False

    def look(processes: list[int], done: int) -> None:
        nonlocal begun
        if done >= steps:
            return  # what the end of the run takes is no step's
        meters.look(processes)
        if not begun and done >= FIRST - 1:
            meters.begin()
            begun = True

    run_one(place, steps, "program", {**sent, **meters.environment}, say, look)
    return meters.spent()


def run_one(
    place: Path,
    steps: int,
    door: str,
    environment: Mapping[str, str],
    say: Callable[[int], None],
    look: Callable[[list[int], int], None] | None = None,
) -> None:
    """One run with its files in `place`; `look` is given its processes and the steps done, twice a second."""
    run = Run(steps=steps, door=door, environment=dict(environment), overrides=_POLL, logs=place)
    deadline = time.monotonic() + _LONGEST
    with Running(run) as running:
        while running.process.poll() is None:
            done = _steps_done(run.metrics)
            say(done)
            if look is not None:
                look(running.processes(), done)
            if time.monotonic() > deadline:
                raise ChildError(f"the run took longer than {_LONGEST:.0f} s")
            try:
                running.process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
    if running.process.returncode or _steps_done(run.metrics) < steps:
        end = "\n".join(run.output.read_text(errors="replace").splitlines()[-20:])
        raise ChildError(f"the run failed (exit code {running.process.returncode}):\n{end}")


def _steps_done(log: Path) -> int:
    """Of training; validation before it is step 0."""
    return max(0, len(log.read_text().splitlines()) - 1) if log.exists() else 0
