"""A greedy real run, twice without us and once with us: what the two plain runs agree on, the observed one agrees on.

What varies from run to run without us (times, memory) says nothing. A step has one sample, since sums in bfloat16
depend on the order in which several come back.
"""

import math

import pytest
from observed import problems

from e2e.conftest import observe

pytestmark = [pytest.mark.verl, pytest.mark.long]

GREEDY = (
    "algorithm.adv_estimator=reinforce_plus_plus",
    "actor_rollout_ref.rollout.n=1",
    "actor_rollout_ref.rollout.top_k=1",
    "data.train_batch_size=1",
    "actor_rollout_ref.actor.ppo_mini_batch_size=1",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
)
MEASURED = ("timing_s/", "timing_per_token_ms/", "perf/", "actor/perf/")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs of two steps: plain, plain, observed."""
    folder = tmp_path_factory.mktemp("greedy")
    doors = {"plain-1": "off", "plain-2": "off", "observed": "auto"}
    return [observe(folder / name, door, 2, (), GREEDY) for name, door in doors.items()]


def curves(run):
    """Values by key, in the order of steps."""
    found = {}
    for step, data in run.log:
        for key, value in data.items():
            if not key.startswith(MEASURED):
                found.setdefault(key, []).append((step, value))
    return found


def agree(one, other):
    """Equal at all steps, but for the rounding of float32 around zero that the order of a batch makes."""
    return len(one) == len(other) and all(
        a == c and (b == d or (None not in (b, d) and math.isclose(b, d, rel_tol=0, abs_tol=1e-7)))
        for (a, b), (c, d) in zip(one, other, strict=True)
    )


def test_the_observed_run_agrees_where_the_plain_ones_do(runs, record_property):
    first, second, observed = map(curves, runs)
    assert first.keys() == second.keys() == observed.keys()
    settled = [key for key in first if agree(first[key], second[key])]
    assert len(settled) >= 50, settled
    assert [key for key in settled if not agree(first[key], observed[key])] == []
    record_property("keys", len(first))
    record_property("keys that agree", len(settled))


def test_it_was_observed(runs):
    assert problems(runs[2].capture, runs[2].log) == []
    assert runs[0].capture.spans == []
