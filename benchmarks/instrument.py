"""`instrument()` in a new interpreter, against importing what every user of the SDK imports: its trace and metrics.

Both are timed inside the interpreter, after its own start. `import verl_otel` is in our time.
"""

from collections.abc import Iterator
from typing import Final

from benchmarks.children import fresh
from benchmarks.measuring import Interval, Row, Verdict, alternate, compare
from benchmarks.telling import Tell

PAIRS: Final = 21

HEAVY: Final = ("torch", "ray", "verl", "vllm", "sglang")

_TIMED: Final = """
import json, sys
from time import perf_counter
start = perf_counter()
{code}
took = perf_counter() - start
print(json.dumps([took, [name for name in {heavy} if name in sys.modules]]))
"""
_OURS: Final = _TIMED.format(code="import verl_otel; verl_otel.instrument()", heavy=HEAVY)
_SDK: Final = _TIMED.format(code="import opentelemetry.sdk.trace, opentelemetry.sdk.metrics", heavy=())


def measure(tell: Tell) -> Iterator[Row]:
    """Rows of the benchmark `instrument`."""
    imported: set[str] = set()

    def timed(code: str) -> float:
        answer: tuple[float, list[str]] = fresh(code)
        imported.update(answer[1])
        return answer[0]

    timed(_OURS), timed(_SDK)  # bytecode and the page cache, for both
    ours, theirs = alternate(PAIRS, lambda: timed(_OURS), lambda: timed(_SDK), lambda done: tell(done, PAIRS))
    yield compare("instrument", "instrument() / importing the SDK", ours, theirs, budget=1.2)
    yield Row(
        "instrument",
        f"imported of {', '.join(HEAVY)}",
        Interval.exactly(len(imported)),
        unit="",
        budget=0,
        note=", ".join(sorted(imported)) or "none",
        verdict=Verdict.OVER if imported else Verdict.WITHIN,
    )
