"""How far engine and trainer are apart, by the age of the weights."""

from types import SimpleNamespace

import pytest

from verl_otel import semconv
from verl_otel.instrumentors import mismatch as instrumentor
from verl_otel.telemetry import mismatch, steps


def test_each_age_has_its_mean(recorded):
    mismatch.measured([0.1, 0.3, 0.5], [0, 0, 2])
    points = {one.attributes["verl.weights.age"]: one.value for one in recorded.metrics()[semconv.MISMATCH.name]}
    assert points == {0: pytest.approx(0.2), 2: 0.5}


@pytest.mark.parametrize("beside", [True, False], ids=["beside the batch", "in its data"])
def test_versions_are_read_where_a_trainer_has_them(recorded, beside):
    torch = pytest.importorskip("torch")
    rows = {
        "rollout_log_probs": torch.log(torch.tensor([[0.5, 0.5], [0.5, 0.1]])),
        "old_log_probs": torch.log(torch.tensor([[0.5, 0.3], [0.4, 0.9]])),
        "response_mask": torch.tensor([[1, 1], [1, 0]]),
    }
    data = SimpleNamespace(batch=rows, non_tensor_batch={} if beside else {"max_global_steps": [4, 3]})
    steps.trainer_started(lambda: 5)
    phase = steps.phase("old_log_prob")
    token = instrumentor._versions.set([4, 3]) if beside else None
    instrumentor.tell(None, data)
    if token is not None:
        instrumentor._versions.reset(token)
    phase.stop()
    points = {one.attributes["verl.weights.age"]: one.value for one in recorded.metrics()[semconv.MISMATCH.name]}
    assert points == {0: pytest.approx(0.1), 1: pytest.approx(0.1)}
