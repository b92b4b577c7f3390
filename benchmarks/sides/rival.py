"""rl-insight 0.3.0 as verl 0.9.1 calls it, and our wrappers round the same calls; `rival.py SERVER SINK`.

Runs in a venv of its own, which has no verl: verl's two small wrappers round rl-insight (`RLInsightLogger.log` and
`trace_state`, verl/utils/tracking.py), and the two functions that ours wrap (`Tracking.log`, `_timer`), are transcribed
here. Only those two wrappers of ours are active, and Ray isn't instrumented: rl-insight's calls to its hub are as they
are without us.
"""

import os
import sys
import urllib.request
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from benchmarks.children import serve
from benchmarks.sides.calls import KEYS, scalars
from benchmarks.sides.loopback_ray import ENVIRONMENT, free_port, listening, loopback_ray
from benchmarks.sides.stopwatch import freeze, per_call

_ENABLE: Final = "VERL_RL_INSIGHT_ENABLE"
_PHASE: Final = "update_actor"


class Theirs:
    """rl-insight, initialised and with its hub running."""

    def __init__(self, ray: Any) -> None:
        import rl_insight
        from rl_insight import api

        self._ray, self._rl_insight, self._port = ray, rl_insight, free_port()
        rl_insight.init(
            project="benchmarks",
            experiment_name="rival",
            config={"prometheus": {"metrics_report_port": self._port}},
        )
        state = api._STATE  # noqa: SLF001 - nothing public says whether it records
        assert state.enabled, "rl-insight is disabled"
        assert state.client is not None
        self._hub = state.client._actor  # noqa: SLF001
        self.events = 0
        self.settle()
        heard = listening(ray._private.worker._global_node.get_session_dir_path())  # noqa: SLF001
        assert any(port == self._port for _, port in heard), "the hub's own port was not seen"
        assert all(host.startswith(("127.", "::ffff:127.", "::1")) for host, _ in heard), heard

    def log(self, data: Mapping[str, float]) -> None:
        """`RLInsightLogger.log`."""
        if os.getenv(_ENABLE) != "1":
            return
        metric_gauge = self._rl_insight.metric_gauge
        for key, value in data.items():
            try:
                scalar = float(value)
            except (TypeError, ValueError):
                continue
            metric_gauge(str(key).replace("/", "_"), scalar)
        self.events += len(data)

    @contextmanager
    def _trace_state(self, name: str, *, state_lane_id: str | None = None, **labels: Any) -> Iterator[None]:
        """`RLInsightLogger.trace_state`."""
        if os.getenv(_ENABLE) != "1":
            yield
            return
        with self._rl_insight.trace_state(name, state_lane_id=state_lane_id, **labels):
            yield

    def span(self) -> None:
        """As verl/utils/profiler/profile.py does round a worker's method."""
        with self._trace_state(_PHASE, state_lane_id="rank_0"):
            pass
        self.events += 1

    def settle(self) -> int:
        """Wait until the hub has applied what was sent: an actor's calls run in order. Returns how many that were."""
        return int(self._ray.get(self._hub.get_status.remote(), timeout=120)["events_applied"])

    def check(self) -> None:
        """Raise if any of what was timed wasn't recorded."""
        applied = self.settle()
        assert applied == self.events, f"{self.events} events sent, {applied} applied"
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as page:
            assert b"rl_insight_monitor_actor_group_9_value_79" in page.read()


class Ours:
    """Our two wrappers round what they wrap in verl."""

    def __init__(self) -> None:
        from verl_otel.instrumentors import timers, tracking
        from verl_otel.patching import patches
        from verl_otel.telemetry import steps

        for name in ("verl_tracking", "verl_timers"):
            patches(name).start()
        self._plain_timer, self._timer = contextmanager(_timer), contextmanager(timers.wrap_timer(_timer))
        self._log = tracking.wrap_log(_Tracking.log)
        self._tracking = _Tracking()
        self._raw: dict[str, float] = {}
        steps.trainer_started(lambda: 1)

    def log(self, data: Mapping[str, float]) -> None:
        """`Tracking.log` with our wrapper."""
        self._log(self._tracking, data, 1)

    def plain_log(self, data: Mapping[str, float]) -> None:
        """`Tracking.log` without."""
        self._tracking.log(data, 1)

    def span(self) -> None:
        """A timer with our wrapper."""
        with self._timer(_PHASE, self._raw):
            pass

    def plain_span(self) -> None:
        """A timer without."""
        with self._plain_timer(_PHASE, self._raw):
            pass

    def settle(self) -> None:
        """Have what was recorded encoded and sent."""
        from verl_otel import runtime

        if not runtime.flush(60):
            raise RuntimeError("the sink took too long")


class _Tracking:
    logger: Mapping[str, Any] = {}

    def log(self, data: Any, step: Any, backend: Any = None) -> None:
        for default_backend, logger_instance in self.logger.items():
            if backend is None or default_backend in backend:
                logger_instance.log(data=data, step=step)


def _timer(name: str, timing_raw: dict[str, float]) -> Generator[None, None, None]:
    yield
    timing_raw[name] = timing_raw.get(name, 0.0)


def main() -> None:
    """Serve until the input ends."""
    server, sink = sys.argv[1:]
    os.environ.update(
        ENVIRONMENT,
        **{_ENABLE: "1", "RL_INSIGHT_SERVER_URL": server},
        OTEL_EXPORTER_OTLP_ENDPOINT=sink,
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_METRIC_EXPORT_INTERVAL="3600000",
    )
    data = scalars(KEYS)
    with loopback_ray() as ray:
        theirs, ours = Theirs(ray), Ours()

        def timed(side: Any, call: Callable[[], object], plain: Callable[[], object], calls: int) -> float:
            found = per_call(call, calls) - per_call(plain, calls)
            side.settle()
            return found

        functions: dict[str, Callable[[], Any]] = {
            "log": lambda: timed(ours, lambda: ours.log(data), lambda: ours.plain_log(data), 20),
            "span": lambda: timed(ours, ours.span, ours.plain_span, 50),
            "rival_log": lambda: timed(theirs, lambda: theirs.log(data), lambda: None, 1),
            "rival_span": lambda: timed(theirs, theirs.span, lambda: None, 50),
        }
        for warm_up in functions.values():
            warm_up()
        freeze()
        serve(**functions, check=theirs.check)


if __name__ == "__main__":
    main()
