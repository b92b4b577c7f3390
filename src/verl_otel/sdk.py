"""The SDK of this process: providers of ours, and the pipeline that drains them.

Our providers are private and never the global ones, which can be set once only: where a distro, a configuration file,
an engine or the application sets its own, now or later, both work side by side and nothing is exported twice.
"""

import os
import sys
import uuid
from collections.abc import Callable
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.semconv._incubating.attributes import host_attributes, process_attributes, service_attributes
from opentelemetry.trace import Tracer

from verl_otel import semconv
from verl_otel.delivery.destinations import check_sampler, export_interval, read_destinations
from verl_otel.delivery.diagnosis import Diagnosis
from verl_otel.delivery.pipeline import Pipeline
from verl_otel.guard import guard, say
from verl_otel.ids import SystemIdGenerator
from verl_otel.redaction import without_secrets
from verl_otel.settings import PER_PROCESS, Settings
from verl_otel.version import __version__


class Runtime:
    """Tracer, meter and logger of ours, and the pipeline behind them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.resource = make_resource(settings.run_id, settings.attempt)
        destinations, complaints = read_destinations(os.environ, settings.headers_file)
        interval, complaint = export_interval(os.environ)
        sampler_complaint = check_sampler(os.environ)
        self._say([*complaints, *(one for one in (complaint, sampler_complaint) if one)])
        self._diagnosis = Diagnosis(os.environ) if settings.role == "driver" else None
        report = self._diagnosis.report if self._diagnosis is not None else None
        self.pipeline = Pipeline(
            destinations, self.resource, bound=settings.queue_mib << 20, interval=interval, report=report
        )
        self._tracers = TracerProvider(
            # The SDK raises for an unusable ratio.
            sampler=ParentBased(ALWAYS_ON) if sampler_complaint else None,
            resource=self.resource,
            shutdown_on_exit=False,
            id_generator=SystemIdGenerator(),
        )
        if self.pipeline.span_processor is not None:
            self._tracers.add_span_processor(self.pipeline.span_processor)
        readers = [self.pipeline.reader] if self.pipeline.reader is not None else []
        self._others: dict[tuple[str | None, ...], Tracer] = {}
        self.meters = MeterProvider(metric_readers=readers, resource=self.resource, shutdown_on_exit=False)
        self._loggers = LoggerProvider(resource=self.resource, shutdown_on_exit=False)
        if self.pipeline.log_processor is not None:
            self._loggers.add_log_record_processor(self.pipeline.log_processor)
        scope = (semconv.SCOPE, __version__)
        self.tracer = self._tracers.get_tracer(*scope, schema_url=semconv.SCHEMA_URL)
        self.meter = self.meters.get_meter(*scope, schema_url=semconv.SCHEMA_URL)
        self._on_stop: list[Callable[[], None]] = []
        self.event_logger: Any = self._loggers.get_logger(*scope, schema_url=semconv.SCHEMA_URL)

    def tracer_for(self, name: str, version: str | None, schema_url: str | None) -> Tracer:
        """A tracer for a scope of someone else's, delivered with ours.

        Each is made once: the SDK sets Python's warning filters anew for every one, and so shows warnings again.
        """
        key = (name, version, schema_url)
        if key not in self._others:
            self._others[key] = self._tracers.get_tracer(name, version, schema_url=schema_url)
        return self._others[key]

    def on_stop(self, close: Callable[[], None]) -> None:
        """Have `close` called when delivery has ended."""
        self._on_stop.append(close)

    def start(self) -> None:
        """Start delivery."""
        self.pipeline.start()

    def flush(self, seconds: float | None = None) -> bool:
        """Everything to the backend within `seconds` (VERL_OTEL_FLUSH_TIMEOUT unless given); False if some is left."""
        return self.pipeline.flush(self.settings.flush_timeout if seconds is None else seconds)

    def stop(self, *, flush: bool = True) -> None:
        """Flush, then end both threads."""
        if flush:
            with guard("flush"):
                self.flush()
        lost = self.pipeline.stop()
        for close in self._on_stop:
            with guard("ending"):
                close()
        # Of a backend that doesn't answer one line has spoken already.
        if lost and self._diagnosis is not None and not self._diagnosis.down:
            say(
                f"{lost} items could not be sent before the end and are lost; if the backend is only slow, raise "
                "VERL_OTEL_FLUSH_TIMEOUT"
            )

    def _say(self, complaints: list[str]) -> None:
        if self.settings.role == "driver":
            for complaint in complaints:
                say(without_secrets(complaint))


def make_resource(run_id: str | None, attempt: int = 1) -> Resource:
    """Who speaks: the standard variables' attributes, and what is this process's own."""
    given = Resource.create({} if _service_is_named() else {service_attributes.SERVICE_NAME: "verl"})
    kept = {key: value for key, value in given.attributes.items() if not key.startswith(PER_PROCESS)}
    own: dict[str, Any] = {
        service_attributes.SERVICE_INSTANCE_ID: str(uuid.uuid4()),
        host_attributes.HOST_NAME: os.uname().nodename,
        process_attributes.PROCESS_PID: os.getpid(),
    }
    run: dict[str, Any] = {semconv.RUN_ID: run_id, semconv.RUN_ATTEMPT: attempt} if run_id else {}
    return Resource({**kept, **own, **run, **_ray_identity()}, given.schema_url)


def _service_is_named() -> bool:
    pairs = (one.partition("=") for one in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    return bool(os.environ.get("OTEL_SERVICE_NAME")) or any(
        name.strip() == service_attributes.SERVICE_NAME and value.strip() for name, _, value in pairs
    )


def _ray_identity() -> dict[str, str]:
    """Job and node of a Ray process, or nothing in a driver that has not called `ray.init` yet."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return {}
    with guard("Ray identity"):
        here = ray.get_runtime_context()
        return {semconv.RAY_JOB_ID: here.get_job_id(), semconv.RAY_NODE_ID: here.get_node_id()}
    return {}
