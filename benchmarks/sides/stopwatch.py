"""How a call is timed: the wall time of the calling thread over a short batch, nothing of the batch before at work."""

import gc
import time
from collections.abc import Callable


def freeze() -> None:
    """Keep what was imported out of later garbage collections, which would strike one side or the other by chance."""
    gc.collect()
    gc.freeze()


def per_call(call: Callable[[], object], calls: int) -> float:
    """Seconds a call."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls
