"""Our wrappers round verl's `Tracking.log` and `marked_timer`, and the bare SDK's calls for the same data.

Both in one process, so that a pair meets the same caches, heap and machine. verl's functions are its own; without our
wrapper they are what `functools.wraps` kept.
"""

import inspect
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.children import serve
from benchmarks.sides.stopwatch import freeze, per_call

KEYS: Final = 80
"""Scalars of a step, as many as verl's GRPO logs."""

_PHASE: Final = "update_actor"


def scalars(keys: int) -> dict[str, float]:
    """What a trainer logs."""
    return {f"actor/group_{number // 8}/value_{number}": number + 0.5 for number in range(keys)}


class Bare:
    """The SDK as its documentation has it: a batch processor that exports to nothing, and a reader.

    Its spans are children of an open one, and carry the attributes that ours do. Their ids are drawn as the SDK draws
    them, since our instrumentation of this process makes its own generator slower.
    """

    def __init__(self) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
        from opentelemetry.sdk.trace.id_generator import IdGenerator
        from opentelemetry.trace import set_span_in_context

        class Nothing(SpanExporter):
            def export(self, spans: Any) -> SpanExportResult:
                return SpanExportResult.SUCCESS

        class Plain(IdGenerator):
            def generate_span_id(self) -> int:
                return random.getrandbits(64)

            def generate_trace_id(self) -> int:
                return random.getrandbits(128)

        self._tracers = TracerProvider(id_generator=Plain(), shutdown_on_exit=False)
        self._tracers.add_span_processor(BatchSpanProcessor(Nothing()))
        self._tracer = self._tracers.get_tracer("bare")
        self._parent = set_span_in_context(self._tracer.start_span("verl.step"))
        meter = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False).get_meter("bare")
        self._values = scalars(KEYS)
        self._gauges = {key: meter.create_gauge(key.replace("/", ".")) for key in self._values}
        self._histogram = meter.create_histogram("phase.duration", "s")

    def log(self) -> None:
        """Set a gauge for each scalar, without attributes; ours carry verl's key."""
        for key, value in self._values.items():
            self._gauges[key].set(value)

    def phase(self) -> None:
        """A span made current and ended."""
        attributes: dict[str, Any] = {"verl.phase": _PHASE, "verl.step": 1, "verl.lane": "trainer"}
        with self._tracer.start_as_current_span(f"verl.phase {_PHASE}", self._parent, attributes=attributes):
            pass

    def phase_and_duration(self) -> None:
        """The same, and its duration in a histogram, as ours."""
        attributes: dict[str, Any] = {"verl.phase": _PHASE, "verl.step": 1, "verl.lane": "trainer"}
        start = time.monotonic()
        with self._tracer.start_as_current_span(f"verl.phase {_PHASE}", self._parent, attributes=attributes):
            self._histogram.record(time.monotonic() - start, {"verl.phase": _PHASE})

    def worker(self) -> None:
        """A span with a worker's attributes."""
        attributes: dict[str, Any] = {
            "verl.role": "actor",
            "verl.worker.method": _PHASE,
            "verl.rank": 0,
            "verl.step": 1,
            "verl.lane": "actor/0",
        }
        with self._tracer.start_as_current_span(f"verl.worker {_PHASE}", self._parent, attributes=attributes):
            pass

    def settle(self) -> None:
        """Have what was recorded exported."""
        self._tracers.force_flush()


class Ours:
    """verl's own calls with our wrappers, in a process instrumented as a trainer is."""

    def __init__(self) -> None:
        import verl_otel

        verl_otel.instrument()
        from verl.utils.profiler import performance
        from verl.utils.tracking import Tracking

        from verl_otel.telemetry import steps

        self._performance = performance
        self._timer = performance._timer  # noqa: SLF001 - what our instrumentor replaces
        self._plain_timer = inspect.unwrap(self._timer)
        assert self._plain_timer is not self._timer, "verl's timer is not instrumented"
        self._log, self._plain_log = Tracking.log, inspect.unwrap(Tracking.log)
        assert self._plain_log is not self._log, "Tracking.log is not instrumented"
        self._tracking = Tracking("benchmarks", "calls", default_backend=[])
        steps.trainer_started(lambda: 1)
        self._raw: dict[str, float] = {}

    def log(self, keys: int) -> Callable[[], object]:
        """`Tracking.log` with our wrapper and no backend."""
        data = scalars(keys)
        return lambda: self._log(self._tracking, data, 1)

    def plain_log(self, keys: int) -> Callable[[], object]:
        """`Tracking.log` without us."""
        data = scalars(keys)
        return lambda: self._plain_log(self._tracking, data, 1)

    def phase(self, *, plain: bool) -> float:
        """Seconds a `marked_timer` of 50, with our wrapper or without."""
        self._performance._timer = self._plain_timer if plain else self._timer  # noqa: SLF001
        try:
            return per_call(self._one_phase, 50)
        finally:
            self._performance._timer = self._timer  # noqa: SLF001

    def _one_phase(self) -> None:
        with self._performance.marked_timer(_PHASE, self._raw):
            pass

    def worker(self) -> None:
        """A worker method's span, as the wrapper of a registered method makes it."""
        from verl_otel.telemetry import workers

        call = workers.start(workers.WorkerCall("actor", 0, _PHASE))
        if call is not None:
            call.stop()

    def settle(self) -> None:
        """Have what was recorded encoded and sent."""
        from verl_otel import runtime

        if not runtime.flush(60):
            raise RuntimeError("the sink took too long")


def gatherer_seconds() -> float:
    """CPU time of our gathering thread so far."""
    (thread,) = (one for one in threading.enumerate() if one.name == "verl-otel-gather")
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def main() -> None:
    """`calls.py ENDPOINT`"""
    os.environ.update(
        OTEL_EXPORTER_OTLP_ENDPOINT=sys.argv[1],
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_METRIC_EXPORT_INTERVAL="3600000",  # collected when settling, never within a batch
    )
    ours, bare = Ours(), Bare()

    def logged(*, keys: int, calls: int) -> float:
        seconds = per_call(ours.log(keys), calls) - per_call(ours.plain_log(keys), calls)
        ours.settle()
        return seconds

    def gathered(*, keys: int, calls: int) -> float:
        """CPU seconds of the gatherer for one log call."""
        ours.settle()
        before = gatherer_seconds()
        per_call(ours.log(keys), calls)
        time.sleep(0.6)  # two of its rounds, without an interval's collection
        return (gatherer_seconds() - before) / calls

    def phase() -> float:
        seconds = ours.phase(plain=False) - ours.phase(plain=True)
        ours.settle()
        return seconds

    def worker() -> float:
        seconds = per_call(ours.worker, 50)
        ours.settle()
        return seconds

    def bare_call(call: Callable[[], object], calls: int) -> float:
        seconds = per_call(call, calls)
        bare.settle()
        return seconds

    for warm_up in (phase, worker, lambda: logged(keys=KEYS, calls=5), bare.log, bare.phase, bare.worker):
        warm_up()
    freeze()
    serve(
        log=logged,
        gathered=gathered,
        phase=phase,
        worker=worker,
        bare_log=lambda: bare_call(bare.log, 10),
        bare_phase=lambda: bare_call(bare.phase, 50),
        bare_phase_and_duration=lambda: bare_call(bare.phase_and_duration, 50),
        bare_worker=lambda: bare_call(bare.worker, 50),
    )


if __name__ == "__main__":
    main()
