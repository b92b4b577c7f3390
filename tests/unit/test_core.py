"""The queue's decisions: order, pauses, bounds, and a reason for everything that is dropped."""

import pytest

from verl_otel.delivery.core import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    LONGEST_RETRY_AFTER,
    Accepted,
    Batch,
    Core,
    Reason,
    Refused,
    Signal,
    Unreachable,
    Worth,
)


def batch(size=10, items=1, signal=Signal.TRACES, worth=Worth.SPAN):
    return Batch(signal, bytes(size), items, worth)


def drive(core, outcome, now=0.0):
    """Take the next batch and settle it."""
    one = core.next(now)
    assert isinstance(one, Batch)
    core.settle(one, outcome, now)
    return one


def test_batches_of_a_signal_leave_in_order():
    core = Core(1000)
    first, second = batch(), batch()
    core.offer(first)
    core.offer(second)
    assert drive(core, Accepted()) is first
    assert drive(core, Accepted()) is second
    assert core.next(0.0) is None
    assert core.statistics().exported == {Signal.TRACES: 2}


def test_a_batch_is_kept_until_it_is_accepted():
    core = Core(1000)
    one = batch(items=7)
    core.offer(one)
    for _ in range(50):
        now = 1000.0 * _
        assert drive(core, Unreachable("down"), now) is one
    assert drive(core, Accepted(), 1e6) is one
    assert core.statistics().exported == {Signal.TRACES: 7}
    assert core.statistics().dropped == {}
    assert core.statistics().retries == {Signal.TRACES: 50}


def test_pauses_grow_from_the_first_to_the_longest():
    core, now, pauses = Core(1000), 0.0, []
    core.offer(batch())
    for _ in range(6):
        drive(core, Unreachable(), now)
        pause = core.next(now)
        pauses.append(pause)
        now += pause
    assert pauses == pytest.approx([FIRST_PAUSE, 1.0, 2.0, 4.0, LONGEST_PAUSE, LONGEST_PAUSE])


def test_retry_after_is_honoured_up_to_its_bound():
    core = Core(1000)
    core.offer(batch())
    drive(core, Unreachable(retry_after=12.0))
    assert core.next(0.0) == pytest.approx(12.0)
    drive(core, Unreachable(retry_after=3600.0), 12.0)
    assert core.next(12.0) == pytest.approx(LONGEST_RETRY_AFTER)


def test_a_signal_that_is_down_does_not_hold_up_the_others():
    core = Core(1000)
    core.offer(batch(signal=Signal.TRACES))
    core.offer(batch(signal=Signal.METRICS))
    drive(core, Unreachable())
    assert drive(core, Accepted()).signal is Signal.METRICS


def test_interval_data_goes_first_spans_next_snapshots_last():
    core = Core(40)
    core.offer(batch(signal=Signal.METRICS, worth=Worth.SNAPSHOT, items=1))
    core.offer(batch(worth=Worth.SPAN, items=10))
    core.offer(batch(signal=Signal.METRICS, worth=Worth.INTERVAL, items=100))
    core.offer(batch(signal=Signal.LOGS, worth=Worth.SNAPSHOT, items=1))
    dropped = []
    for _ in range(3):
        core.offer(batch(signal=Signal.LOGS, worth=Worth.SNAPSHOT, items=1))
        dropped.append(core.statistics().dropped)
    assert dropped[0] == {(Signal.METRICS, Reason.QUEUE_FULL): 100}
    assert dropped[1] == {**dropped[0], (Signal.TRACES, Reason.QUEUE_FULL): 10}
    assert sum(dropped[2].values()) == 111
    assert core.statistics().queued_bytes == 40


def test_what_is_being_sent_is_not_evicted():
    core = Core(20)
    first = batch()
    core.offer(first)
    assert core.next(0.0) is first
    for _ in range(5):
        core.offer(batch())
    core.settle(first, Accepted(), 0.0)
    assert core.statistics().exported == {Signal.TRACES: 1}
    assert core.statistics().dropped == {(Signal.TRACES, Reason.QUEUE_FULL): 4}


def test_a_batch_larger_than_the_bound_is_dropped_alone():
    core = Core(20)
    core.offer(batch())
    core.offer(batch(size=100, items=3))
    assert core.statistics().dropped == {(Signal.TRACES, Reason.QUEUE_FULL): 4}
    assert core.statistics().queued_bytes == 0


def test_refused_and_partial_success_are_counted():
    core = Core(1000)
    core.offer(batch(items=5))
    core.offer(batch(items=5))
    drive(core, Refused("HTTP 400"))
    drive(core, Accepted(rejected=2))
    assert core.statistics().exported == {Signal.TRACES: 3}
    assert core.statistics().dropped == {(Signal.TRACES, Reason.REFUSED): 5, (Signal.TRACES, Reason.PARTIAL): 2}


def test_abandoning_counts_what_was_left_once():
    core = Core(1000)
    sending = batch(items=3)
    core.offer(sending)
    core.offer(batch(items=4))
    assert core.next(0.0) is sending
    assert core.abandon() == 7
    core.settle(sending, Accepted(), 0.0)
    assert core.statistics().dropped == {(Signal.TRACES, Reason.EXIT): 7}
    assert core.statistics().exported == {}
    assert core.statistics().queued_bytes == 0


def test_hurry_ends_a_pause():
    core = Core(1000)
    core.offer(batch())
    drive(core, Unreachable())
    assert isinstance(core.next(0.0), float)
    core.hurry()
    assert isinstance(core.next(0.0), Batch)
