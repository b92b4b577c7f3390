"""What grows with what: keys in a log call, processes of a run. (The size of a call's payload is in `ray_calls`.)

A cost that is flat per key and per process is what lets a run of a thousand ranks be read from a small one. Each row is
the largest size against a small one, and `FLAT` is what still counts as flat on a machine with caches.
"""

import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

from benchmarks.children import Child
from benchmarks.measuring import Row, compare, seconds
from benchmarks.telling import Tell

FLAT: Final = 1.5

_KEYS: Final = (10, 100, 1000, 10_000)
_ROUNDS: Final = 9
_PROCESSES: Final = (1, 8, 64)
_STEPS: Final = 30
_DONE: Final = _ROUNDS * len(_KEYS) + sum(_PROCESSES)


def measure(tell: Tell) -> Iterator[Row]:
    """Rows of the benchmark `growth`."""
    with Child("benchmarks.sides.sink") as sink:
        endpoint = sink.ask("endpoint")
        yield from _keys(tell, endpoint)
        yield from _processes(tell, endpoint)


def _keys(tell: Tell, endpoint: str) -> Iterator[Row]:
    """Seconds a key of one `Tracking.log`: wall time of the caller, CPU time of the gatherer for the snapshot."""
    with Child("benchmarks.sides.calls", endpoint) as child:
        for keys in _KEYS:
            child.ask("log", keys=keys, calls=1)  # a key's name is settled when it is first seen
        caller: dict[int, list[float]] = {keys: [] for keys in _KEYS}
        gatherer: dict[int, list[float]] = {keys: [] for keys in _KEYS}
        for number in range(_ROUNDS):
            for place, keys in enumerate(_KEYS):
                tell(number * len(_KEYS) + place, _DONE)
                calls = max(1, 2000 // keys)
                caller[keys].append(child.ask("log", keys=keys, calls=calls) / keys)
                gatherer[keys].append(child.ask("gathered", keys=keys, calls=min(calls, 20)) / keys)
    for who, times in (("the calling thread", caller), ("the gatherer, CPU", gatherer)):
        note = ", ".join(f"{keys}: {seconds(statistics.median(times[keys]))}" for keys in _KEYS)
        yield compare(
            "growth", f"per key in {who}: 10,000 keys / 100", times[10_000], times[100], budget=FLAT, note=note
        )


def _processes(tell: Tell, endpoint: str) -> Iterator[Row]:
    """CPU seconds a process for a step's telemetry, while as many others send theirs to the same receiver."""
    found: dict[int, list[float]] = {}
    for count in _PROCESSES:
        with ExitStack() as stack:
            children = []
            for number in range(count):
                tell(_ROUNDS * len(_KEYS) + sum(_PROCESSES[: _PROCESSES.index(count)]) + number, _DONE)
                children.append(stack.enter_context(Child("benchmarks.sides.exporter", endpoint)))
                if number % 4 == 3:
                    children[-1].ask("work", of_steps=1)  # started, before more are
            with ThreadPoolExecutor(count) as pool:
                list(pool.map(lambda child: child.ask("work", of_steps=1), children))
                rounds = max(1, 8 // count)
                found[count] = [
                    value
                    for _ in range(rounds)
                    for value in pool.map(lambda child: child.ask("work", of_steps=_STEPS), children)
                ]
    note = ", ".join(f"{count}: {seconds(statistics.median(values))}" for count, values in found.items())
    many, few = found[_PROCESSES[-1]], found[_PROCESSES[1]]
    # No pairs here: each of the many against the median of the few.
    few = [statistics.median(few)] * len(many)
    yield compare("growth", "CPU per process and step: 64 processes / 8", many, few, budget=FLAT, note=note)
