"""Memory of a process whose backend is dead while it goes on recording.

Growth of its resident memory, at its highest, from when everything was imported, started and had tried to send once.
Nothing listens at the endpoint. The load is phases with their durations, and snapshots of 100 scalars. The short run
has four times the load of the real one, so that the queue reaches its bound in it; what comes after is drops.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from benchmarks.children import Child
from benchmarks.measuring import Interval, Row, Verdict
from benchmarks.sides.loopback_ray import free_port
from benchmarks.telling import Tell

MINUTE: Final = 60
BUDGET: Final = 64.0

_SPANS: Final = 1000
_SNAPSHOTS: Final = 10
_MIB: Final = 1 << 20


def measure(tell: Tell, *, seconds: int = MINUTE, times: int = 4) -> Iterator[Row]:
    """Rows of the benchmark `memory`; `times` the load of 1,000 spans and 10 snapshots a second."""
    # At the same time, since nothing is timed.
    with ThreadPoolExecutor() as pool:
        found = [pool.submit(_measure, protocol, tell, seconds, times) for protocol in ("http/protobuf", "grpc")]
        for one in found:
            yield one.result()


def _measure(protocol: str, tell: Tell, seconds: int, times: int) -> Row:
    rates = {"spans_a_second": times * _SPANS, "snapshots_a_second": times * _SNAPSHOTS}
    with Child("benchmarks.sides.load", f"http://127.0.0.1:{free_port()}", protocol) as child:
        before = child.ask("warm_up")["resident"]
        most = queued = 0
        for second in range(seconds):
            tell(second, seconds)
            child.ask("load", seconds=1, **rates)
            state = child.ask("state")
            most, queued = max(most, state["resident"]), max(queued, state["queued"])
    grown = (most - before) / _MIB
    full = state["dropped"].get("queue_full", 0)
    note = (
        f"{seconds} s at {rates['spans_a_second']:,} spans and {rates['snapshots_a_second']} snapshots a second; "
        f"queue up to {queued / _MIB:.1f} MiB; {full:,} items dropped when full, "
        f"{sum(state['dropped'].values()) - full:,} for other reasons"
    )
    verdict = Verdict.WITHIN if grown <= BUDGET else Verdict.OVER
    if not full and verdict is Verdict.WITHIN:
        verdict = Verdict.INCONCLUSIVE  # it would have grown on
    what = f"memory under load, backend dead ({protocol})"
    return Row("memory", what, Interval.exactly(grown), " MiB", BUDGET, note, verdict)
