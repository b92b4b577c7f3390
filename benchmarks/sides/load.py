"""A process that records without pause while nothing listens where it sends; `load.py ENDPOINT PROTOCOL`."""

import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.children import serve
from benchmarks.sides.calls import scalars

_KEYS: Final = 100
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE


def main() -> None:
    """Serve until the input ends."""
    os.environ.update(
        OTEL_EXPORTER_OTLP_ENDPOINT=sys.argv[1], OTEL_EXPORTER_OTLP_PROTOCOL=sys.argv[2], VERL_OTEL_RUN_ID="load"
    )
    from verl_otel import runtime
    from verl_otel.instrumentors.metric_keys import describe
    from verl_otel.telemetry import scalars as recorded
    from verl_otel.telemetry import steps

    steps.trainer_started(lambda: 1)
    data = scalars(_KEYS)

    def spans(count: int) -> None:
        """Phases, each of which is recorded in a histogram too."""
        for _ in range(count):
            phase = steps.phase("update_actor")
            assert phase is not None
            phase.stop()

    def load(*, seconds: float, spans_a_second: int, snapshots_a_second: int) -> None:
        """Record at the rates, in ten small portions a second."""
        start = time.monotonic()
        for portion in range(int(seconds * 10)):
            spans(spans_a_second // 10)
            for number in range(snapshots_a_second // 10):
                recorded.log(data, portion * 100 + number, describe)
            time.sleep(max(0.0, start + (portion + 1) / 10 - time.monotonic()))

    def state() -> dict[str, Any]:
        """Memory, and what the pipeline says of itself."""
        counts = runtime.current().pipeline.statistics()
        dropped = {reason.value: items for (_, reason), items in counts.dropped.items()}
        return {"resident": resident(), "queued": counts.queued_bytes, "dropped": dropped}

    def warm_up() -> dict[str, Any]:
        """Threads, encoders and transport are there and have tried once."""
        spans(10)
        recorded.log(data, 0, describe)
        runtime.flush(1)
        time.sleep(1)
        return state()

    serve(warm_up=warm_up, load=load, state=state)


if __name__ == "__main__":
    main()
