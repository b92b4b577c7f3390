"""The trainers' own methods: where initialisation, validation before training, warm-up and training begin and end."""

import functools
import weakref
from collections.abc import Callable
from typing import Any, Final

from verl_otel import runtime, semconv
from verl_otel.guard import guard
from verl_otel.instrumentors import run_config
from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed
from verl_otel.patching import Wrapper, patches
from verl_otel.ray import ending
from verl_otel.telemetry import attempts, run, steps
from verl_otel.telemetry.attempts import Attempt

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


def wrap_load(original: Callable[..., Any]) -> Callable[..., Any]:
    """After a checkpoint was loaded the trainer's step is that checkpoint's."""

    @functools.wraps(original)
    def load_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if patches(_NAME).active:
            with guard("reading the resumed step"):
                if step := read_step(self):
                    run.resumed(step)
        return result

    return load_checkpoint


def wrap_save(original: Callable[..., Any]) -> Callable[..., Any]:
    """Once a checkpoint is there, leave word of the run for the attempt that may resume from it."""

    @functools.wraps(original)
    def save_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        if patches(_NAME).active:
            with guard("leaving word for a next attempt"):
                settings, folder = runtime.current().settings, run_config.read_checkpoints(self.config)
                if settings.run_id and folder is not None and folder.is_dir():
                    attempts.write(folder, Attempt(settings.run_id, settings.attempt))
        return result

    return save_checkpoint


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
        Target(f"{_V1}.trainer_base", "PPOTrainer._load_checkpoint", wrap_load, since="0.9.0"),
        Target(f"{_V1}.trainer_base", "PPOTrainer._save_checkpoint", wrap_save, since="0.9.0"),
        Target("verl.trainer.ppo.ray_trainer", "RayPPOTrainer._load_checkpoint", wrap_load),
        Target("verl.trainer.ppo.ray_trainer", "RayPPOTrainer._save_checkpoint", wrap_save),
        Target("transfer_queue", "close", wrap_queue_close, since="0.9.0"),
    )
