"""The start of a Ray worker that we instrument, against a bare Ray worker's.

Measured is what a user waits: from asking for an actor to its first answer, from a process that didn't exist before.
Both drivers give their workers a runtime_env, as verl does, so neither is served from Ray's pool of idle workers; ours
has our set-up function and variables in it besides. The actor's class is the same, and does nothing.
"""

from collections.abc import Iterator
from typing import Final

from benchmarks.measuring import Row, alternate, compare
from benchmarks.ray_calls import drivers
from benchmarks.telling import Tell

PAIRS: Final = 20


def measure(tell: Tell) -> Iterator[Row]:
    """Rows of the benchmark `worker`."""
    with drivers() as (observed, bare):
        for side in (observed, bare):
            side.ask("start")
        ours, theirs = alternate(
            PAIRS, lambda: observed.ask("start"), lambda: bare.ask("start"), lambda done: tell(done, PAIRS)
        )
    yield compare("worker", "start of a Ray worker / bare", ours, theirs, budget=1.25)
