"""All of delivery for one process: processors and reader in front, gatherer and sender behind, one deadline to flush.

What is delivered, and how, is said by the standard variables: see `destinations`.
"""

from collections.abc import Callable, Iterable, Mapping
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics.export import Metric
from opentelemetry.sdk.resources import Resource

from verl_otel import semconv
from verl_otel.delivery.core import Signal, Statistics
from verl_otel.delivery.destinations import Destination
from verl_otel.delivery.gatherer import Gatherer
from verl_otel.delivery.handoff import Handoffs
from verl_otel.delivery.logs import HandoffLogRecordProcessor
from verl_otel.delivery.metrics import GatheringReader
from verl_otel.delivery.points import counter, gauge
from verl_otel.delivery.sender import Report, Sender
from verl_otel.delivery.spans import HandoffSpanProcessor
from verl_otel.guard import failures
from verl_otel.importing import importing

if TYPE_CHECKING:
    from verl_otel.delivery.encoding import Encoder
    from verl_otel.delivery.transports import Transport

HOPELESS: Final = 0.25
"""Seconds that a flush waits for a backend that seems to be down."""


class Pipeline:
    """Delivery of the signals in `destinations`; a signal that isn't there has no processor or reader."""

    def __init__(
        self,
        destinations: Mapping[Signal, Destination],
        resource: Resource,
        *,
        bound: int,
        interval: float,
        report: Report | None = None,
    ) -> None:
        """`bound`: bytes queued at most. `interval`: seconds between metric collections. Starts no thread yet."""
        self._started = time_ns()
        self._unanswered: int | None = None
        handoffs = Handoffs()
        self.span_processor = HandoffSpanProcessor(handoffs.spans) if Signal.TRACES in destinations else None
        self.log_processor = (
            HandoffLogRecordProcessor(handoffs.events, handoffs.messages) if Signal.LOGS in destinations else None
        )
        self.reader = GatheringReader(resource) if Signal.METRICS in destinations else None
        if self.reader is not None:
            self.reader.add_producer(self._report_on_itself)
        self._sender = Sender(bound, {signal: _connect(signal, one) for signal, one in destinations.items()}, report)
        encoders = {signal: _encoder(one) for signal, one in destinations.items()}
        self._gatherer = Gatherer(self._sender, encoders, handoffs, self.reader, interval)

    def start(self) -> None:
        """Start both threads."""
        self._sender.start()
        self._gatherer.start()

    def watch(self, look: Callable[[], None], every: float | None = None) -> None:
        """Have `look` called every so many seconds, default at each interval, by the gatherer's thread."""
        self._gatherer.watch(look, every)

    def flush(self, seconds: float) -> bool:
        """Gather and send everything within `seconds`, all signals together; True if nothing is left.

        A backend that took nothing so far, or nothing during the flush before, is not waited for: a run's end flushes
        several times. It is tried, and once it takes something it has the whole time.
        """
        start, before = monotonic(), self._exported()
        hopeless = before == self._unanswered or (before == 0 and bool(self.statistics().retries))
        first = start + (min(seconds, HOPELESS) if hopeless else seconds)
        done = self._gatherer.gather(first) and self._sender.flush(first)
        if not done and hopeless and self._exported() > before:
            done = self._sender.flush(start + seconds)
        self._unanswered = before if not done and self._exported() == before else None
        return done

    def stop(self) -> int:
        """Stop both threads; returns the items given up."""
        self._gatherer.stop()
        if self.reader is not None:
            self.reader.stop_sources()
        return self._sender.stop()

    def statistics(self) -> Statistics:
        """What was exported and dropped so far, and what waits."""
        return self._sender.statistics()

    def _exported(self) -> int:
        return sum(self.statistics().exported.values())

    def _report_on_itself(self, time: int) -> Iterable[Metric]:
        counts, start = self.statistics(), self._started
        for signal in Signal:
            yield counter(semconv.EXPORTED[signal.value], [({}, counts.exported.get(signal, 0))], start, time)
        # A zero is worth a point: "nothing was lost" is a statement that a missing series doesn't make.
        dropped = {(signal, None): 0 for signal in Signal} | dict(counts.dropped.items())
        yield counter(
            semconv.TELEMETRY_DROPPED,
            [
                ({semconv.SIGNAL: signal.value, semconv.DROP_REASON: reason.value if reason else "none"}, count)
                for (signal, reason), count in dropped.items()
            ],
            start,
            time,
        )
        retries = [({semconv.SIGNAL: signal.value}, counts.retries.get(signal, 0)) for signal in Signal]
        yield counter(semconv.TELEMETRY_RETRIES, retries, start, time)
        yield gauge(semconv.TELEMETRY_QUEUE, [({}, counts.queued_bytes)], time)
        if errors := failures.counts():
            places = [({semconv.PLACE: place}, count) for place, count in errors.items()]
            yield counter(semconv.TELEMETRY_ERRORS, places, start, time)


def _encoder(destination: Destination) -> "Callable[[], Encoder]":
    def make() -> "Encoder":
        with importing():
            from verl_otel.delivery import encoding

        return encoding.ConsoleEncoder() if destination.kind == "console" else encoding.OtlpEncoder()

    return make


def _connect(signal: Signal, destination: Destination) -> "Callable[[], Transport]":
    def make() -> "Transport":
        if destination.kind == "console":
            from verl_otel.delivery.transports import ConsoleTransport

            return ConsoleTransport()
        with importing():
            if destination.kind == "grpc":
                from verl_otel.delivery.grpc import GrpcTransport

                return GrpcTransport(signal, destination.headers(signal))
            from verl_otel.delivery.http import HttpTransport

            return HttpTransport(signal, destination.headers(signal))

    return make
