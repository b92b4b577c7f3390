"""The SFT trainers, which have neither timers nor a method for a step: what they take from their data tells the steps.

A step lasts from asking for its batch to asking for the next one, validation and checkpoint included.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from verl_otel import semconv
from verl_otel.guard import guard
from verl_otel.instrumentors.base import Observation, Target, VerlInstrumentor, observed
from verl_otel.instrumentors.trainers import Fit, leave_word
from verl_otel.patching import patches
from verl_otel.telemetry import run, steps
from verl_otel.telemetry.recording import Recording
from verl_otel.telemetry.steps import Step

_NAME: Final = "verl_sft"
_PROGRAMS: Final = ("verl.trainer.sft_trainer", "verl.trainer.sft_trainer_ray")
_own = patches(_NAME)


class _Steps:
    """Counts the steps of one `fit`."""

    def __init__(self, resumed: int) -> None:
        self.number = resumed
        self._open: Step | None = None
        self._empty = False

    def begin(self) -> None:
        """The next batch is asked for: end the step before, and begin one, unless one is there that got no batch."""
        if not self._empty:
            self.end()
            self.number += 1
            self._open = Step()
        self._empty = True

    def got_batch(self) -> None:
        """The step has its batch."""
        self._empty = False

    def end(self) -> None:
        """End the step that is open; one without a batch is marked."""
        if self._open is not None:
            if self._empty:
                self._open.cut()
            else:
                self._open.stop()
        self._open = None


class _Observed:
    """A data loader that is iterated under our eyes, and is the user's own in everything else."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader" or name.startswith("__"):  # asked of a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self._loader, name)


class ObservedBatches(_Observed):
    """The data loader of training: its batches mark the steps."""

    def __init__(self, loader: Any, counted: _Steps) -> None:
        super().__init__(loader)
        self._counted = counted

    def __iter__(self) -> Iterator[Any]:
        batches = iter(self._loader)
        while True:
            phase = None
            with guard("beginning a step"):
                self._counted.begin()
                phase = steps.phase("data")
            try:
                batch = next(batches)
            except StopIteration:
                _stop(phase)
                return
            except BaseException as error:
                if phase is not None:
                    phase.fail(error)
                raise
            _stop(phase)
            self._counted.got_batch()
            yield batch
            del batch  # the trainer's to keep, through a long step


def _stop(phase: Recording | None) -> None:
    if phase is not None:
        phase.stop()


class ObservedValidation(_Observed):
    """The data loader of validation: while it is iterated, the phase `testing` is open."""

    def __iter__(self) -> Iterator[Any]:
        phase = None
        with guard("beginning validation"):
            phase = steps.phase("testing", validation=True)
        try:
            yield from iter(self._loader)
        finally:
            _stop(phase)


def start_init(*_: Any, **__: Any) -> Observation:
    """Model, data and workers are set up, and a checkpoint is loaded."""
    return steps.Root(semconv.SPAN_INIT, lane=read_lane())


class _SftFit(Fit):
    def __init__(self, trainer: Any, counted: _Steps) -> None:
        self._trainer, self._steps = trainer, counted
        self._before = {"train_dataloader": trainer.train_dataloader, "val_dataloader": trainer.val_dataloader}
        trainer.train_dataloader = ObservedBatches(trainer.train_dataloader, counted)
        if trainer.val_dataloader is not None:
            trainer.val_dataloader = ObservedValidation(trainer.val_dataloader)

    def end(self, error: BaseException | None) -> None:
        """Put the loaders back, and end what is open."""
        vars(self._trainer).update(self._before)
        if error is None:
            self._steps.end()
        super().end(error)


def start_fit(trainer: Any, *_: Any, **__: Any) -> Observation:
    """From here on batches make steps."""
    resumed = int(trainer.resume_global_step)
    if resumed:
        run.resumed(resumed)
    counted = _Steps(resumed)
    steps.trainer_started(lambda: counted.number, by_log=False, lane=read_lane())
    return _SftFit(trainer, counted)


def read_lane() -> str:
    """Row of this process in a state timeline: under torchrun each rank trains and is one."""
    rank = os.environ.get("RANK", "0")
    return steps.LANE if rank == "0" else f"{steps.LANE}/{rank}"


def wrap_save(original: Callable[..., Any]) -> Callable[..., Any]:
    """A checkpoint is a phase, as with the other trainers, and leaves word for a next attempt."""

    observed_save = _observe_save(original)

    @functools.wraps(original)
    def save_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = observed_save(self, *args, **kwargs)
        if _own.active and self.rank == 0:
            with guard("leaving word for a next attempt"):
                leave_word(self.default_local_dir)
        return result

    return save_checkpoint


def start_save(*_: Any, **__: Any) -> Observation | None:
    """A checkpoint is written."""
    return steps.phase("save_checkpoint")


_observe_save = observed(_own, start_save)
_TRAINER: Final = (("SFTTrainer.__init__", start_init), ("SFTTrainer.fit", start_fit))


def wrap_device(original: Callable[..., Any]) -> Callable[..., Any]:
    """The first call of every program of verl's: the trainer's class is defined, in `__main__`, and not used yet."""

    @functools.wraps(original)
    def auto_set_device(*args: Any, **kwargs: Any) -> Any:
        if _own.active:
            with guard("an SFT program"):
                main = sys.modules["__main__"]
                if getattr(getattr(main, "__spec__", None), "name", "") in _PROGRAMS:
                    for name, start in _TRAINER:
                        _own.wrap(main.SFTTrainer, name.rpartition(".")[2], observed(_own, start))
        return original(*args, **kwargs)

    return auto_set_device


class SftInstrumentor(VerlInstrumentor):
    """Steps of supervised fine-tuning, under torchrun and on Ray."""

    name = _NAME
    targets = (
        *(Target(module, name, observed(_own, start)) for module in _PROGRAMS for name, start in _TRAINER),
        Target("verl.utils.device", "auto_set_device", wrap_device),
        Target("verl.utils.checkpoint.checkpoint_handler", "CheckpointHandler.save_checkpoint", wrap_save),
    )
