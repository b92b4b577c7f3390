"""`Tracking`: every scalar of every step, the run's description, and the end of a step."""

import functools
from collections.abc import Callable
from typing import Any, Final

from verl_otel import runtime
from verl_otel.guard import guard
from verl_otel.instrumentors import run_config
from verl_otel.instrumentors.base import Target, VerlInstrumentor
from verl_otel.instrumentors.metric_keys import describe
from verl_otel.patching import patches
from verl_otel.telemetry import run, scalars, steps

_NAME: Final = "verl_tracking"


def wrap_init(original: Callable[..., None]) -> Callable[..., None]:
    """Read what the run is, once its loggers are made."""

    @functools.wraps(original)
    def init(
        self: Any,
        project_name: Any,
        experiment_name: Any,
        default_backend: Any = "console",
        config: Any = None,
        **others: Any,
    ) -> None:
        original(self, project_name, experiment_name, default_backend, config, **others)
        if patches(_NAME).active:
            with guard("reading the run"):
                run.describe(run_config.read_run(config, project_name, experiment_name), run_config.as_mapping(config))
                if runtime.current().settings.role == "driver":
                    run.start()  # a trainer without Ray, under torchrun

    return init


def wrap_log(original: Callable[..., None]) -> Callable[..., None]:
    """Queue the scalars before verl's own loggers run, close the step after them."""

    @functools.wraps(original)
    def log(self: Any, data: Any, step: Any, *args: Any, **kwargs: Any) -> Any:
        active = patches(_NAME).active
        if active:
            with guard("queueing scalars"):
                scalars.log(data, step, describe)
        try:
            return original(self, data, step, *args, **kwargs)
        finally:
            if active:
                with guard("closing a step"):
                    steps.logged(int(step))

    return log


class TrackingInstrumentor(VerlInstrumentor):
    """Scalars and run information, from `verl.utils.tracking.Tracking`."""

    name = _NAME
    targets = (
        Target(
            "verl.utils.tracking",
            "Tracking.__init__",
            wrap_init,
            reads=("project_name", "experiment_name", "default_backend", "config"),
        ),
        Target("verl.utils.tracking", "Tracking.log", wrap_log, reads=("data", "step")),
    )
