"""A call of a Ray actor that carries the context, against the same call without us.

Two drivers, each with a local Ray and one actor, are timed in alternating blocks: the bare one has nothing of ours in
it, neither in the driver nor in the worker. The other calls inside a sampled span, so each call carries its trace and
scope and the actor enters them. Then the same for larger payloads, where only the difference is ours.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.children import Child
from benchmarks.measuring import Row, alternate, compare, median, seconds
from benchmarks.telling import Tell

PAIRS: Final = 60

_SIZES: Final = (("1 KB", 1_000, 60), ("100 KB", 100_000, 30), ("10 MB", 10_000_000, 4))
"""Payload and calls in a block."""


@contextmanager
def drivers() -> Iterator[tuple[Child, Child]]:
    """The observed driver and the bare one."""
    with (
        Child("benchmarks.sides.sink") as sink,
        Child("benchmarks.sides.ray_calls", "observed", sink.ask("endpoint")) as observed,
        Child("benchmarks.sides.ray_calls", "bare") as bare,
    ):
        if not observed.ask("carried") or bare.ask("carried"):
            raise RuntimeError("the context is carried where it shouldn't be, or isn't where it should")
        yield observed, bare


def measure(tell: Tell) -> Iterator[Row]:
    """Rows of the benchmark `ray`."""
    with drivers() as (observed, bare):
        for number, (name, size, calls) in enumerate(_SIZES):

            def told(pair: int, before: int = number * PAIRS) -> None:
                tell(before + pair, len(_SIZES) * PAIRS)

            with_us, without = alternate(
                PAIRS, _round_trips(observed, size, calls), _round_trips(bare, size, calls), told
            )
            added = median([a - b for a, b in zip(with_us, without, strict=True)])
            note = f"adds {seconds(added.value)} ({seconds(added.low)} to {seconds(added.high)})"
            what = f"round trip of an actor, {name} / bare"
            yield compare("ray", what, with_us, without, budget=1.25 if number == 0 else None, note=note)


def _round_trips(driver: Child, size: int, calls: int) -> Callable[[], float]:
    return lambda: float(driver.ask("round_trip", size=size, calls=calls))
