"""A request of a rollout, from the agent loop to a real vLLM engine on CPU, with our wrappers and without.

Measured is the CPU time of all processes for a request of 32 tokens in and 256 out by a model of a megabyte: less than
a request costs anywhere else, so that our share is more. And how late the event loop is for a timer of 1 ms while 64
requests are under way, and the memory of trajectories that are open.
"""

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.children import ROOT, Child
from benchmarks.measuring import Interval, Row, alternate, compare, judge, median
from benchmarks.telling import Tell

PAIRS: Final = 10
REQUESTS: Final = 128
AT_ONCE: Final = 64
OPEN: Final = 10_000


def measure(tell: Tell) -> Iterator[Row]:
    """Rows of the benchmark `rollouts`."""
    sys.path.append(str(ROOT / "examples" / "cpu"))
    from run import BRIDGES, KIT, QUIET

    late: dict[bool, list[float]] = {True: [], False: []}
    with (
        Child("benchmarks.sides.sink") as sink,
        Child(
            "benchmarks.sides.engine", sink.ask("endpoint"), str(Path(KIT) / "model"), more={**BRIDGES, **QUIET}
        ) as child,
    ):

        def side(ours: bool) -> float:
            found = child.ask("run", requests=REQUESTS, at_once=AT_ONCE, ours=ours)
            late[ours].append(found["late"])
            return float(found["cpu"])

        child.ask("start")
        side(True), side(False)  # the first of each warms up
        for values in late.values():
            values.clear()
        ours, theirs = alternate(PAIRS, lambda: side(True), lambda: side(False), lambda done: tell(done, PAIRS))
        grown = child.ask("open_trajectories", count=OPEN)
    yield compare("rollouts", "CPU of a request to vLLM / without us", ours, theirs, budget=1.02)
    added = median([(a - b) * 1e3 for a, b in zip(late[True], late[False], strict=True)])
    both = " against ".join(f"{statistics.median(late[one]) * 1e3:.2f} ms" for one in (True, False))
    what = f"event loop later at {AT_ONCE} requests (99 %)"
    yield Row("rollouts", what, added, " ms", 1.0, both, judge(added, 1.0))
    note = f"{grown / OPEN / 1024:.1f} KiB each"
    yield Row("rollouts", f"memory of {OPEN:,} open trajectories", Interval.exactly(grown / 2**20), " MiB", None, note)
