"""The calls in the training thread against the bare SDK's: a step's scalars, the span of a phase, the span of a worker.

Measured is the wall time of the calling thread: what our wrapper adds to verl's own call, against the SDK's calls that
would record the same data by hand. After each batch both sides export what they hold, untimed, so that no thread works
for one side while the other is timed. What those threads cost is in `growth` (CPU of the gatherer) and `real`.
"""

from collections.abc import Iterator
from typing import Final

from benchmarks.children import Child
from benchmarks.measuring import Row, compare
from benchmarks.sides.calls import KEYS
from benchmarks.telling import Tell

PAIRS: Final = 150


def measure(tell: Tell) -> Iterator[Row]:
    """Rows of the benchmark `calls`."""
    with Child("benchmarks.sides.sink") as sink, Child("benchmarks.sides.calls", sink.ask("endpoint")) as child:
        times: dict[str, list[float]] = {}
        names = ("log", "bare_log", "phase", "bare_phase", "worker", "bare_worker", "bare_phase_and_duration")
        for number in range(PAIRS):
            tell(number, PAIRS)
            # Neither side always comes second.
            for name in names if number % 2 else reversed(names):
                sizes = {"keys": KEYS, "calls": 20} if name == "log" else {}
                times.setdefault(name, []).append(child.ask(name, **sizes))
    what = f"Tracking.log of {KEYS} scalars / SDK gauges"
    yield compare("calls", what, times["log"], times["bare_log"], budget=1.2)
    yield compare("calls", "span of a phase (marked_timer) / SDK span", times["phase"], times["bare_phase"], budget=1.3)
    yield compare("calls", "span of a worker method / SDK span", times["worker"], times["bare_worker"], budget=1.3)
    by_hand = times["bare_phase_and_duration"]
    yield compare("calls", "span and histogram of a phase / SDK span and histogram", times["phase"], by_hand)
