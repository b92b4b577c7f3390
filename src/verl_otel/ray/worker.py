"""A Ray worker's start: instrument it. Runs in every worker of the job, so it must be quick, and can't raise."""

import os
import pickle

from verl_otel.guard import guard
from verl_otel.settings import PREFIX


def set_up(hooks: bytes | None = None) -> None:
    """Called by Ray before the worker takes its first task; an exception here would kill the worker.

    `hooks`: the user's, as `reach` pickled them.
    """
    with guard("worker set-up"):
        os.environ[f"{PREFIX}ROLE"] = "worker"
        if hooks is not None:
            _take(hooks)
        from verl_otel import instrument

        instrument()


def _take(hooks: bytes) -> None:
    with guard("taking the user's hooks"):
        from verl_otel.telemetry import hooks as here

        here.give(**pickle.loads(hooks))  # noqa: S301 - made by the driver of this very job
