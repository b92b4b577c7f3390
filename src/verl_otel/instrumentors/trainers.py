"""The trainers' own methods: where initialisation, validation before training, warm-up and training begin and end."""

import functools
import weakref
from collections.abc import Callable
from typing import Any, Final

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.instrumentors import run_config
from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed
from verl_otel.patching import Wrapper, patches
from verl_otel.ray import ending
from verl_otel.telemetry import run, steps

_NAME: Final = "verl_trainers"


class _Fit:
    """From the call of `fit` to its end, after which telemetry is flushed while every actor still lives."""

    def stop(self) -> None:
        self._end(None)

    def fail(self, error: BaseException) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with guard("end of training"):
            steps.trainer_finished(error)
            ending.flush_run()


def start_fit(trainer: Any, *_: Any, **__: Any) -> Observation:
    """Timers of this process are now phases of the trainer's steps."""
    reference = weakref.ref(trainer)
    steps.trainer_started(lambda: read_step(reference()))
    return _Fit()


def read_step(trainer: Any) -> int | None:
    """The step the trainer works on, from 1; 0 before the first."""
    found = getattr(trainer, "global_steps", None)
    return int(found) if found is not None else None


def start_init(*_: Any, **__: Any) -> Observation:
    """Workers, engines and weights are set up."""
    return steps.Root(semconv.SPAN_INIT)


def start_validate(*_: Any, **__: Any) -> Observation:
    """Validation before training; inside a step it is a phase, and nothing is added."""
    return steps.Root(semconv.SPAN_VALIDATE, validation=True)


def start_warmup(*_: Any, **__: Any) -> Observation:
    """Batches are dispatched ahead of the first step."""
    return steps.Root(semconv.SPAN_WARMUP)


def wrap_validate_config(original: Callable[..., Any]) -> Callable[..., Any]:
    """Read the configuration where it is checked: V1 does so in the driver, before Ray starts."""

    @functools.wraps(original)
    def validate_config(*args: Any, **kwargs: Any) -> Any:
        if patches(_NAME).active:
            with guard("reading the configuration"):
                config = run_config.as_mapping(args[0] if args else kwargs["config"])
                run.describe(run_config.read_run(config), config)
        return original(*args, **kwargs)

    return validate_config


def wrap_queue_close(original: Callable[..., Any]) -> Callable[..., Any]:
    """The V1 task runner's last act before it returns: it kills the queue's actors, so they are asked just before."""

    @functools.wraps(original)
    def close(*args: Any, **kwargs: Any) -> Any:
        if patches(_NAME).active:
            with guard("end of the task runner"):
                ending.flush_run()
        return original(*args, **kwargs)

    return close


def _observed(start: Callable[..., Observation]) -> Wrapper:
    return observed(patches(_NAME), start)


_V1: Final = "verl.trainer.ppo.v1"


class TrainersInstrumentor(VerlInstrumentor):
    """Roots of steps and of what lies outside them, from the trainers; the end of the run, from the task runner."""

    name = _NAME
    targets = (
        Target("verl.utils.config", "validate_config", wrap_validate_config, reads=("config",)),
        Target(f"{_V1}.trainer_base", "PPOTrainer.init", _observed(start_init), since="0.9.0"),
        Target(f"{_V1}.trainer_base", "PPOTrainer.fit", _observed(start_fit), since="0.9.0"),
        Target(f"{_V1}.trainer_base", "PPOTrainer._validate", _observed(start_validate), since="0.9.0"),
        Target(
            f"{_V1}.trainer_colocate_async",
            "PPOTrainerColocateAsync.on_train_begin",
            _observed(start_warmup),
            since="0.9.0",
        ),
        Target(
            f"{_V1}.trainer_separate_async",
            "PPOTrainerSeparateAsync.on_train_begin",
            _observed(start_warmup),
            since="0.9.0",
        ),
        Target("verl.trainer.ppo.ray_trainer", "RayPPOTrainer.init_workers", _observed(start_init)),
        Target("verl.trainer.ppo.ray_trainer", "RayPPOTrainer.fit", _observed(start_fit)),
        Target("verl.trainer.ppo.ray_trainer", "RayPPOTrainer._validate", _observed(start_validate)),
        Target("transfer_queue", "close", wrap_queue_close, since="0.9.0"),
    )
