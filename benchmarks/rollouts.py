"""A request of a rollout, from the agent loop to a vLLM engine on CPU, with our wrappers and without.

Our CPU time of a request is the difference that we make where the engine has its answer ready, in all threads; it is
compared with what a request to the real engine takes without us, in all processes: 32 tokens in and 256 out by a model
of a megabyte, which is less than anywhere else, so that our share is more. Besides, how late the event loop is for a
timer of 1 ms while 64 requests to the real engine are under way, and the memory of trajectories that are open.
"""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from run import BRIDGES, KIT, QUIET

from benchmarks.children import Child
from benchmarks.measuring import Interval, Row, alternate, compare, judge, median, seconds
from benchmarks.telling import Tell

PAIRS: Final = 8
REQUESTS: Final = 128
INSTANT: Final = 2000
AT_ONCE: Final = 64
OPEN: Final = 10_000


def measure(tell: Tell) -> Iterator[Row]:
    """Rows of the benchmark `rollouts`."""
    late: dict[bool, list[float]] = {True: [], False: []}
    with (
        Child("benchmarks.sides.sink") as sink,
        Child(
            "benchmarks.sides.engine", sink.ask("endpoint"), str(Path(KIT) / "model"), more={**BRIDGES, **QUIET}
        ) as child,
    ):
        child.ask("start")

        def side(ours: bool, instant: bool = False) -> float:
            requests = INSTANT if instant else REQUESTS
            found = child.ask("run", requests=requests, at_once=AT_ONCE, ours=ours, instant=instant)
            if not instant:
                late[ours].append(found["late"])
            return float(found["cpu"])

        for instant in (True, False):
            side(True, instant), side(False, instant)  # the first of each warms up
        late = {True: [], False: []}
        ways = alternate(PAIRS, lambda: side(True, True), lambda: side(False, True), lambda done: tell(done, 2 * PAIRS))
        real = alternate(PAIRS, lambda: side(True), lambda: side(False), lambda done: tell(PAIRS + done, 2 * PAIRS))
        grown = child.ask("open_trajectories", count=OPEN)
    request = statistics.median(real[1])
    added = [a - b for a, b in zip(*ways, strict=True)]
    share = median([100 * one / request for one in added])
    note = f"{seconds(statistics.median(added))} of {seconds(request)}"
    yield Row("rollouts", "our CPU time of a request to vLLM", share, " %", 2.0, note, judge(share, 2.0))
    yield compare("rollouts", "CPU of a request to vLLM / without us", *real, note="too noisy for 2 %")
    lateness = median([(a - b) * 1e3 for a, b in zip(late[True], late[False], strict=True)])
    both = " against ".join(f"{statistics.median(late[one]) * 1e3:.2f} ms" for one in (True, False))
    what = f"event loop later at {AT_ONCE} requests (99 %)"
    yield Row("rollouts", what, lateness, " ms", 1.0, both, judge(lateness, 1.0))
    note = f"{grown / OPEN / 1024:.1f} KiB each"
    yield Row("rollouts", f"memory of {OPEN:,} open trajectories", Interval.exactly(grown / 2**20), " MiB", None, note)
