"""Shared by all tests: the examples are importable, and no test inherits another's globals."""

import os
import signal
import sys
from pathlib import Path

import pytest
from opentelemetry import context
from opentelemetry.context import Context

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples" / "cpu"), str(ROOT / "tests")]

pytest.register_assert_rewrite("e2e.pages")

# In a shell's background Ctrl-C is ignored, here and in everything that is started.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What the person who runs the tests has set for their own programs is not for ours.
for name in [one for one in os.environ if one.startswith(("OTEL_", "VERL_OTEL_"))]:
    del os.environ[name]


@pytest.fixture(autouse=True)
def fresh_globals():
    """Every test starts and ends without a runtime, a run, a trainer, scalars, counted failures or a current span."""
    from verl_otel import runtime, settings
    from verl_otel.guard import failures
    from verl_otel.ray import reach
    from verl_otel.telemetry import (
        batches,
        content,
        engine_load,
        failure,
        figures,
        groups,
        hooks,
        mismatch,
        recording,
        replicas,
        rewards,
        run,
        sampling,
        scalars,
        steps,
        trajectories,
        whoami,
    )

    more = (engine_load, figures, whoami)
    rollouts = (batches, content, groups, mismatch, replicas, rewards, sampling, trajectories)

    def reset():
        runtime.stop(flush=False)
        reach.forget_run_id()
        recording.reset()
        hooks.reset()
        failure.succeeded()
        run.reset()
        steps.reset()
        scalars.reset()
        for module in (*rollouts, *more):
            module.reset()
        failures.clear()
        settings._warned.clear()

    reset()
    token = context.attach(Context())
    yield
    context.detach(token)
    reset()


@pytest.fixture
def recorded(monkeypatch):
    """What this process records, kept to be looked at instead of sent."""
    from helpers import recording

    with recording(monkeypatch) as found:
        yield found
