"""A Ray worker's start: instrument it. Runs in every worker of the job, so it must be quick, and can't raise."""

import os

from verl_otel.guard import guard
from verl_otel.settings import PREFIX


def set_up() -> None:
    """Called by Ray before the worker takes its first task; an exception here would kill the worker."""
    with guard("worker set-up"):
        os.environ[f"{PREFIX}ROLE"] = "worker"
        from verl_otel import instrument

        instrument()
