"""`Tracking`: every scalar of every step, the run's description, and the end of a step."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from verl_otel import runtime
from verl_otel.guard import guard
from verl_otel.instrumentors import run_config
from verl_otel.instrumentors.base import Target, VerlInstrumentor
from verl_otel.instrumentors.metric_keys import describe
from verl_otel.patching import patches
from verl_otel.telemetry import figures, run, scalars, steps
from verl_otel.telemetry.figures import Figures

_NAME: Final = "verl_tracking"


def wrap_init(original: Callable[..., None]) -> Callable[..., None]:
    """Read what the run is, once its loggers are made."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        if patches(_NAME).active:
            with guard("reading the run"):
                given = signature.bind(*args, **kwargs).arguments
                config = run_config.as_mapping(given.get("config"))
                run.describe(run_config.read_run(config, given["project_name"], given["experiment_name"]), config)
                if runtime.current().settings.role == "driver":
                    run.start()  # a trainer without Ray, under torchrun
                if not steps.has_trainer():
                    # One that we don't know. What it times is its steps', which it names when it logs them.
                    steps.trainer_started(lambda: None)

    return init


def compute_figures(step: int, data: Any) -> Figures:
    """What the step's numbers mean together; none where that fails, which must not cost the numbers themselves."""
    with guard("computing figures"):
        return figures.of_step(step, data)
    return Figures()


def wrap_log(original: Callable[..., Any]) -> Callable[..., Any]:
    """Queue the scalars before verl's own loggers run, close the step after them."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def log(*args: Any, **kwargs: Any) -> Any:
        step = None
        if patches(_NAME).active:
            with guard("queueing scalars"):
                bound = signature.bind(*args, **kwargs)
                step, data = int(bound.arguments["step"]), bound.arguments["data"]
                computed = compute_figures(step, data)
                scalars.log(data, step, describe, functools.partial(figures.metrics, computed))
                if runtime.current().settings.log_figures:
                    bound.arguments["data"] = {**data, **computed.scalars()}
                    args, kwargs = bound.args, bound.kwargs
        try:
            return original(*args, **kwargs)
        finally:
            if step is not None:
                with guard("closing a step"):
                    steps.logged(step)

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
