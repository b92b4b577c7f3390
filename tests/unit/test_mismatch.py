"""How far engine and trainer are apart, by the age of the weights and the replica, and token by token where asked."""

from types import SimpleNamespace

import pytest

from helpers import with_settings
from verl_otel import semconv
from verl_otel.instrumentors import mismatch as instrumentor
from verl_otel.telemetry import mismatch, steps
from verl_otel.telemetry.mismatch import Compared
from verl_otel.telemetry.origins import TAG, Origin

TRACE = f"00-{7:032x}-{9:016x}-01"
BOUND = pytest.approx


def points(recorded):
    found = recorded.metrics()[semconv.MISMATCH.name]
    return {tuple(sorted(one.attributes.items())): one.value for one in found}


def test_each_age_and_replica_has_its_mean(recorded):
    elsewhere = Origin(server="10.0.0.1:80")
    rows = [Compared(0, 0.1, 0), Compared(1, 0.3, 0), Compared(2, 0.5, 2), Compared(3, 0.9, 2, elsewhere)]
    mismatch.measured(rows, lambda row: [])
    assert points(recorded) == {
        (("verl.weights.age", 0),): BOUND(0.2),
        (("verl.weights.age", 2),): 0.5,
        (("server.address", "10.0.0.1"), ("server.port", 80), ("verl.weights.age", 2)): 0.9,
    }


def compare(tags):
    """verl compares two rows of step 5: the second has one token."""
    torch = pytest.importorskip("torch")
    rows = {
        "rollout_log_probs": torch.log(torch.tensor([[0.5, 0.5], [0.5, 0.1]])),
        "old_log_probs": torch.log(torch.tensor([[0.5, 0.3], [0.4, 0.9]])),
        "response_mask": torch.tensor([[1, 1], [1, 0]]),
    }
    data = SimpleNamespace(batch=rows, non_tensor_batch={} if tags else {"max_global_steps": [4, 3]})
    steps.trainer_started(lambda: 5)
    phase = steps.phase("old_log_prob")
    trainer = SimpleNamespace(_own=None)
    instrumentor._own.active = True
    if tags:
        compute = instrumentor.wrap_log_prob(lambda self, batch: instrumentor.tell(None, data))
        compute(trainer, SimpleNamespace(tags=tags))
    else:
        instrumentor.tell(None, data)
    phase.stop()


@pytest.fixture
def tags():
    ours = {TAG: {"traceparent": TRACE, "server": "[::1]:80"}}
    return [{"max_global_steps": 4, **ours}, {"max_global_steps": 3, **ours}]


def test_versions_are_read_where_a_trainer_has_them(recorded, tags):
    compare(None)
    assert points(recorded) == {(("verl.weights.age", age),): BOUND(0.1) for age in (0, 1)}
    compare(tags)
    there = (("server.address", "::1"), ("server.port", 80))
    assert points(recorded) == {(*there, ("verl.weights.age", age)): BOUND(0.1) for age in (0, 1)}


def test_padding_and_tags_of_others_are_no_trajectories(recorded, tags):
    compare([tags[0], {"is_padding": True}])
    assert len(points(recorded)) == 1
    compare([{TAG: "not ours"}, {}])
    assert points(recorded) == {(): BOUND(0.1)}


def test_the_worst_are_told_in_their_own_trace(recorded, tags):
    compare(tags)
    found = [attributes for name, attributes in recorded.events() if name == semconv.EVENT_MISMATCH]
    assert [one[semconv.MISMATCH_MEAN] for one in found] == [BOUND(0.1)] * 2
    assert all(semconv.MISMATCH_TOKENS not in one for one in found)


def test_tokens_are_told_where_asked_for(recorded, tags, monkeypatch):
    with_settings(monkeypatch, token_mismatch=True)
    compare(tags)
    records = [getattr(one, "log_record", one) for one in recorded_records()]
    assert [(one.trace_id, one.span_id) for one in records] == [(7, 9), (7, 9)]
    tokens = [list(one.attributes[semconv.MISMATCH_TOKENS]) for one in records]
    assert tokens == [[0, BOUND(-0.5108, abs=1e-4)], [BOUND(-0.2231, abs=1e-4)]]


def recorded_records():
    from verl_otel import runtime

    return runtime.current().pipeline.log_processor._events.take(100)


def test_only_so_many_and_only_traced_ones_are_told(recorded):
    from verl_otel.telemetry import origins

    traced = origins.read({"traceparent": TRACE})
    unsampled = origins.read({"traceparent": TRACE[:-1] + "0"})
    mismatch.measured([Compared(row, row / 100, 0, traced) for row in range(50)], lambda row: [])
    told = [one[semconv.MISMATCH_MEAN] for _, one in recorded.events()]
    assert told == [one / 100 for one in range(49, 49 - mismatch.WORST, -1)]
    mismatch.measured([Compared(0, 1.0, 0, unsampled)], lambda row: [])
    assert recorded.events() == []
