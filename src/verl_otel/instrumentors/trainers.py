"""The trainers' own methods: where initialisation, validation before training, warm-up and training begin and end."""

import contextlib
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from verl_otel import runtime, semconv
from verl_otel.guard import guard
from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed, read_after
from verl_otel.patching import Wrapper, patches
from verl_otel.ray import ending
from verl_otel.telemetry import attempts, run, steps
from verl_otel.telemetry.attempts import Attempt

_NAME: Final = "verl_trainers"
_MARK: Final = "__verl_otel_step__"
STOPS: Final = "TrainingStopException"
"""What a fully async trainer's last step, and the timers in it, end in: no failure."""


class Fit:
    """From the call of `fit` to its end, after which telemetry is flushed while every actor still lives."""

    def stop(self) -> None:
        """Training is done."""
        with guard("end of training"):
            self.end(None)

    def fail(self, error: BaseException) -> None:
        """Training failed."""
        with guard("end of training"):
            self.end(error)

    def end(self, error: BaseException | None) -> None:
        """End what is open and flush."""
        steps.trainer_finished(error)
        ending.flush_run()


def start_fit(trainer: Any, *_: Any, **__: Any) -> Observation:
    """Timers of this process are now phases of the trainer's steps."""
    _start_trainer(trainer)
    return Fit()


def prepare_separate(trainer: Any, *_: Any, **__: Any) -> None:
    """A trainer apart from its rollouts (one step off, fully async) sets up its workers; it has a method for a step.

    It may be an actor, whose class Ray pickled by value: what is wrapped here is the class as this process has it. Ray
    has taken `fit` from it already; `fit_step` is called on it, by `fit`.
    """
    _start_trainer(trainer)
    if not hasattr(type(trainer).fit_step, _MARK):
        patches(_NAME).wrap(type(trainer), "fit_step", _wrap_fit_step)


def _start_trainer(trainer: Any) -> None:
    reference = weakref.ref(trainer)
    steps.trainer_started(
        lambda: read_step(reference()),
        read_epoch=lambda: read_epoch(reference()),
        by_log=not hasattr(trainer, "fit_step"),
    )


class _FitStep(steps.Step):
    def fail(self, error: BaseException) -> None:
        """A fully async trainer ends by an exception in a step that found no more samples."""
        if type(error).__name__ == STOPS:
            self.cut()
        else:
            super().fail(error)


def start_fit_step(trainer: Any, *_: Any, **__: Any) -> Observation:
    """A step of a trainer that has a method for it."""
    local = getattr(trainer, "local_trigger_step", None)
    return _FitStep({semconv.LOCAL_STEP: int(local) if local is not None else None})


def _wrap_fit_step(original: Callable[..., Any]) -> Callable[..., Any]:
    wrapped = _observed(start_fit_step)(original)
    setattr(wrapped, _MARK, True)
    return wrapped


def read_step(trainer: Any) -> int | None:
    """The step the trainer works on, as it will log it, from 1; 0 before the first.

    A fully async trainer logs versions of its weights, of which each is made by one or several steps.
    """
    version = getattr(trainer, "current_param_version", None)
    found = getattr(trainer, "global_steps", None) if version is None else version + 1
    return int(found) if found is not None else None


def read_epoch(trainer: Any) -> int | None:
    """The epoch of the step it works on, from 0, as verl counts: by how many steps the data make."""
    step, size = getattr(trainer, "global_steps", None), getattr(trainer, "steps_per_epoch", None)
    if size is None:
        with contextlib.suppress(TypeError):  # no loader, or one of data without an end
            size = len(getattr(trainer, "train_dataloader", None))  # type: ignore[arg-type]
    return (int(step) - 1) // int(size) if step and size else None


def start_init(*_: Any, **__: Any) -> Observation:
    """Workers, engines and weights are set up."""
    return steps.Root(semconv.SPAN_INIT)


def start_validate(*_: Any, **__: Any) -> Observation:
    """Validation before training; inside a step it is a phase, and nothing is added."""
    return steps.Root(semconv.SPAN_VALIDATE, validation=True)


def start_warmup(*_: Any, **__: Any) -> Observation:
    """Batches are dispatched ahead of the first step."""
    return steps.Root(semconv.SPAN_WARMUP)


def tell_loaded(_: Any, trainer: Any, *__: Any, **___: Any) -> None:
    """After a checkpoint was loaded the trainer's step is that checkpoint's."""
    if step := int(trainer.global_steps):
        run.resumed(step)


def tell_saved(_: Any, trainer: Any, *__: Any, **___: Any) -> None:
    """A checkpoint is there: leave word of the run for the attempt that may resume from it."""
    leave_word(trainer.config.trainer.default_local_dir)


def leave_word(folder: Any) -> None:
    """Note the run beside its checkpoints; `folder`: of all of them, as the configuration names it."""
    settings, path = runtime.current().settings, Path(str(folder))
    if settings.run_id and path.is_dir():
        attempts.write(path, Attempt(settings.run_id, settings.attempt))


def end_runner(*_: Any, **__: Any) -> None:
    """A task runner's last act, before it returns and its actors are killed: they are asked just before."""
    ending.flush_run()


def _observed(start: Callable[..., Observation | None]) -> Wrapper:
    return observed(patches(_NAME), start)


_load: Final = read_after(patches(_NAME), "reading the resumed step", tell_loaded)
_save: Final = read_after(patches(_NAME), "leaving word for a next attempt", tell_saved)
_V1: Final = "verl.trainer.ppo.v1"
_SEPARATE: Final = "verl.experimental"


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
        Target(f"{_V1}.trainer_base", "PPOTrainer._load_checkpoint", _load, since="0.9.0"),
        Target(f"{_V1}.trainer_base", "PPOTrainer._save_checkpoint", _save, since="0.9.0"),
        Target("verl.trainer.ppo.ray_trainer", "RayPPOTrainer._load_checkpoint", _load),
        Target("verl.trainer.ppo.ray_trainer", "RayPPOTrainer._save_checkpoint", _save),
        Target(f"{_SEPARATE}.separation.ray_trainer", "SeparateRayPPOTrainer.init_workers", _observed(start_init)),
        Target(
            f"{_SEPARATE}.separation.ray_trainer",
            "SeparateRayPPOTrainer._init_resource_pools",
            _observed(prepare_separate),
        ),
        Target(
            f"{_SEPARATE}.one_step_off_policy.ray_trainer",
            "OneStepOffRayTrainer.fit",
            _observed(start_fit),
            since="0.8.0",
        ),
        Target(
            f"{_SEPARATE}.fully_async_policy.message_queue",
            "MessageQueueClient.clear_queue",
            _observed(end_runner),
            since="0.8.0",
        ),
        Target("transfer_queue", "close", _observed(end_runner), since="0.8.0"),
    )
