"""One of many processes of a run: records the work of some steps and sends it; `exporter.py ENDPOINT`."""

import os
import sys
import time

from benchmarks.children import serve
from benchmarks.sides.calls import KEYS, scalars


def main() -> None:
    """Serve until the input ends."""
    os.environ.update(
        OTEL_EXPORTER_OTLP_ENDPOINT=sys.argv[1],
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_METRIC_EXPORT_INTERVAL="3600000",
        VERL_OTEL_RUN_ID="growth",
        VERL_OTEL_ROLE="worker",
    )
    from verl_otel import runtime
    from verl_otel.instrumentors.metric_keys import describe
    from verl_otel.telemetry import scalars as recorded
    from verl_otel.telemetry import steps

    steps.trainer_started(lambda: 1)
    data = scalars(KEYS)

    def work(*, of_steps: int) -> float:
        """Twelve phases and one snapshot a step, all sent; CPU seconds of the whole process for a step."""
        start = time.process_time()
        for step in range(of_steps):
            for _ in range(12):
                phase = steps.phase("update_actor")
                assert phase is not None
                phase.stop()
            recorded.log(data, step, describe)
            steps.logged(step)
        if not runtime.flush(120):
            raise RuntimeError("the sink took too long")
        return (time.process_time() - start) / of_steps

    work(of_steps=5)
    serve(work=work)


if __name__ == "__main__":
    main()
