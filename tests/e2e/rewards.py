"""Rewards of a user's own: one that takes its time, with spans of its own, and one that raises."""

import itertools
import time

import aiohttp
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


ERROR_MARK = "MARK-OF-A-REWARD"
SLEEPS = 120.0
_calls = itertools.count(1)


def troubled(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    """It raises for some answers, and once it takes two minutes."""
    if next(_calls) == 20:
        time.sleep(SLEEPS)
    if sum(map(ord, solution_str)) % 5 == 0:
        raise ValueError(f"{ERROR_MARK} {solution_str}")
    return {"score": float(len(solution_str)), "length": len(solution_str)}


async def judged(data_source, solution_str, ground_truth, extra_info=None, reward_router_address=None, **kwargs):
    """By a model behind verl's router, which is asked over HTTP."""
    asked = {
        "model": kwargs["reward_model_tokenizer"].name_or_path,
        "messages": [{"role": "user", "content": f"Is {solution_str} good?"}],
        "max_tokens": 4,
    }
    url = f"http://{reward_router_address}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json=asked) as response:
        answer = await response.json()
    return {"score": float(answer["usage"]["completion_tokens"])}
