"""Measure each budget and write the table.

usage: python -m benchmarks [--only NAME]... [--real] [--json]
       python -m benchmarks --only gateway    needs Go, and 10 minutes
       python -m benchmarks --only ingest     a real run for its data, and a minute of load: 5 minutes

Exit codes: 0 measured (a missed budget is a line in the table), 1 a benchmark failed to run, 130 stopped.
"""

import argparse
import functools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import (
    bridges,
    calls,
    gateway,
    growth,
    instrument,
    local_ingest,
    local_queries,
    memory,
    ray_calls,
    real_run,
    rival,
    rollouts,
    table,
    worker,
)
from benchmarks.children import ChildError
from benchmarks.measuring import Row
from benchmarks.telling import Tell

Measure = Callable[[Tell], Iterator[Row]]

QUICK: Final[dict[str, Measure]] = {
    "calls": calls.measure,
    "rival": rival.measure,
    "ray": ray_calls.measure,
    "worker": worker.measure,
    "instrument": instrument.measure,
    "rollouts": rollouts.measure,
    "bridges": bridges.measure,
    "memory": memory.measure,
    "growth": growth.measure,
    "queries": local_queries.measure,
}
SLOW: Final = ("real", "gateway", "ingest")
"""Only by name, or with `--real`."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure each budget, in 9 minutes.")
    parser.add_argument("--only", action="append", choices=[*QUICK, *SLOW], help="just this one (again for more)")
    parser.add_argument("--real", action="store_true", help="also a real run with and without us, 10 minutes of load")
    parser.add_argument("--pairs", type=int, default=4, help="pairs of real runs (default 4, each takes 5 minutes)")
    parser.add_argument("--steps", type=int, default=24, help="training steps of a real run (default 24)")
    parser.add_argument("--memory-seconds", type=int, help="how long the load of `memory` lasts (default 60, real 600)")
    parser.add_argument(
        "--capture",
        type=Path,
        help="OTLP that `gateway` and `ingest` make a fleet of (default: of a run made for it)",
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    arguments = parser.parse_args()
    chosen = dict(QUICK)
    if arguments.real or arguments.memory_seconds:
        seconds = arguments.memory_seconds or 10 * memory.MINUTE
        # A long run fills the queue at the plain load.
        times = 1 if seconds >= 5 * memory.MINUTE else 4
        chosen["memory"] = functools.partial(memory.measure, seconds=seconds, times=times)
    if arguments.real or "real" in (arguments.only or ()):
        chosen["real"] = functools.partial(real_run.measure, pairs=arguments.pairs, steps=arguments.steps)
    if "gateway" in (arguments.only or ()):
        chosen["gateway"] = functools.partial(gateway.measure, capture=arguments.capture)
    if "ingest" in (arguments.only or ()):
        chosen["ingest"] = functools.partial(local_ingest.measure, capture=arguments.capture)
    if arguments.only:
        chosen = {name: measure for name, measure in chosen.items() if name in arguments.only}
    console = Console(stderr=arguments.json)
    rows, failed = run(console, chosen)
    written = table.write(rows)
    if arguments.json:
        sys.stdout.write(json.dumps([row.to_json() for row in rows], indent=1) + "\n")
    else:
        table.show(console, rows)
        console.print(f"Of {len(written)} rows, results.md and results.json in {table.HERE.name}/ hold all.")
    return 1 if failed else 0


def run(console: Console, chosen: dict[str, Measure]) -> tuple[list[Row], list[str]]:
    """All rows, and the names of the benchmarks that failed; a failure costs that benchmark alone."""
    rows: list[Row] = []
    failed: list[str] = []
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        for name, measure in chosen.items():
            task = progress.add_task(name)
            if not console.is_terminal:
                console.print(f"{name} ...")

            def tell(done: int, of: int, task: object = task) -> None:
                progress.update(task, completed=done, total=of)  # type: ignore[arg-type]

            try:
                rows += list(measure(tell))  # all of a benchmark, or nothing
            except (ChildError, OSError, RuntimeError, ValueError, AssertionError, subprocess.SubprocessError) as error:
                failed.append(name)
                console.print(f"[red]{name} failed:[/red]", end=" ")
                console.print(str(error), markup=False)
            progress.update(task, completed=1, total=1)
    return rows, failed


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
