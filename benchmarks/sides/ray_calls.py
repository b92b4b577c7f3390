"""A driver with a Ray of its own: round trips to an actor, and starts of fresh ones.

`ray_calls.py bare`, or `ray_calls.py observed ENDPOINT`. The bare one is given a variable for its workers, as verl
gives some: Ray then starts a process of its own for each actor, with us and without, instead of taking one from its
pool.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil

from benchmarks.children import serve
from benchmarks.sides.loopback_ray import ENVIRONMENT, loopback_ray
from benchmarks.sides.stopwatch import freeze, per_call


def _observe(endpoint: str) -> None:
    os.environ.update(
        OTEL_EXPORTER_OTLP_ENDPOINT=endpoint,
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        VERL_OTEL_RUN_ID="benchmark",
    )
    import verl_otel

    verl_otel.instrument()


@contextlib.contextmanager
def _open_span() -> Any:
    """A sampled span of ours, with a step and a phase to be carried."""
    from verl_otel.telemetry.recording import Recording
    from verl_otel.telemetry.scope import Scope

    recording = Recording("benchmark", {}, scope=Scope(1, "update_actor"), root=True)
    assert recording.span.is_recording()
    yield
    recording.stop()


def main() -> None:
    """Serve until the input ends."""
    observed = sys.argv[1] == "observed"
    # No worker before it is asked for: what starts is what is timed.
    os.environ.update(ENVIRONMENT, RAY_prestart_worker_first_driver="0", RAY_enable_worker_prestart="0")
    if observed:
        _observe(sys.argv[2])
    with loopback_ray(runtime_env={"env_vars": {"BENCHMARK": "1"}}) as ray:

        class Actor:
            def ping(self, payload: bytes) -> int:
                return len(payload)

            def context(self) -> str | None:
                from opentelemetry import trace

                here = trace.get_current_span().get_span_context()
                return f"{here.trace_id:032x}" if here.is_valid else None

            def process(self) -> int:
                return os.getpid()

        remote = ray.remote(num_cpus=0)(Actor)
        actor = remote.remote()
        payloads: dict[int, bytes] = {}

        def ping(payload: bytes) -> Callable[[], object]:
            return lambda: ray.get(actor.ping.remote(payload))

        def round_trip(*, size: int, calls: int) -> float:
            call = ping(payloads.setdefault(size, os.urandom(size)))
            with _open_span() if observed else contextlib.nullcontext():
                return per_call(call, calls)

        def carried() -> bool:
            """Whether the actor sees the driver's span."""
            with _open_span() if observed else contextlib.nullcontext():
                return ray.get(actor.context.remote()) is not None

        def start() -> float:
            """Seconds from asking for an actor to its first answer, in a process that didn't exist before."""
            before = set(psutil.pids())
            began = time.perf_counter()
            fresh = remote.remote()
            process = ray.get(fresh.process.remote())
            took = time.perf_counter() - began
            ray.kill(fresh)
            if process in before:
                raise RuntimeError(f"process {process} was there before the actor")
            return took

        round_trip(size=1000, calls=50)
        freeze()
        serve(round_trip=round_trip, carried=carried, start=start)


if __name__ == "__main__":
    main()
