"""Hydra, which starts verl's programs: the resolved configuration before Ray starts, and how the program ended.

`Callbacks` are told of both outside the program's own frames, so that its tracebacks stay as they are.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from verl_otel import runtime
from verl_otel.guard import guard
from verl_otel.instrumentors import run_config
from verl_otel.instrumentors.base import Target, VerlInstrumentor
from verl_otel.patching import patches
from verl_otel.ray import reach
from verl_otel.telemetry import attempts, run
from verl_otel.telemetry.failure import Failure

_NAME: Final = "verl_hydra"


def wrap_job_start(original: Callable[..., Any]) -> Callable[..., Any]:
    """Read the configuration that verl's `main` is about to be given."""

    @functools.wraps(original)
    def on_job_start(self: Any, config: Any, *args: Any, **kwargs: Any) -> Any:
        if _observes():
            with guard("reading the configuration"):
                read = run_config.as_mapping(config)
                run.describe(run_config.read_run(read), read)
                resume(run_config.read_resume_folder(read))
        return original(self, config, *args, **kwargs)

    return on_job_start


def wrap_job_end(original: Callable[..., Any]) -> Callable[..., Any]:
    """Note what `main` ended in: Hydra turns its exception into an exit code."""

    @functools.wraps(original)
    def on_job_end(self: Any, config: Any, job_return: Any, *args: Any, **kwargs: Any) -> Any:
        if _observes():
            with guard("noting the outcome"):
                # Its property `return_value` would raise it.
                ended_in = job_return._return_value  # noqa: SLF001
                run.note_outcome(Failure.of(ended_in) if isinstance(ended_in, BaseException) else None)
        return original(self, config, job_return, *args, **kwargs)

    return on_job_end


def resume(folder: Path | None) -> None:
    """Take the identity that the last attempt left beside its checkpoints, for this process and all that follow."""
    if folder is None:
        return
    if (found := attempts.follow(folder, reach.given_run_id())) is None:
        return
    reach.adopt(found.run_id, found.attempt)
    runtime.stop(flush=False)  # the next use makes one of the right identity
    # Ranks under torchrun all come here, and must find the same; theirs is written with the next checkpoint.
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        attempts.write(folder, found)


def _observes() -> bool:
    return patches(_NAME).active and "verl" in sys.modules


class HydraInstrumentor(VerlInstrumentor):
    """Configuration and outcome of the program, from `hydra._internal.callbacks.Callbacks`."""

    name = _NAME
    targets = (
        Target("hydra._internal.callbacks", "Callbacks.on_job_start", wrap_job_start),
        Target("hydra._internal.callbacks", "Callbacks.on_job_end", wrap_job_end),
    )
