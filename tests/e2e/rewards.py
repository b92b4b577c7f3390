"""Rewards of a user's own: one that takes its time, with spans of its own, and one that raises."""

import time

from opentelemetry import trace


def slow(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """Seconds in which a trajectory is in flight."""
    time.sleep(2)
    return {"score": float(len(solution_str))}


def broken(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """A mistake in a user's code."""
    raise ValueError("the reward is broken")


def traced(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """With a span by OpenTelemetry's API, and no call to us."""
    with trace.get_tracer("user").start_as_current_span("my reward") as span:
        span.set_attribute("length", len(solution_str))
        return {"score": float(len(solution_str))}
