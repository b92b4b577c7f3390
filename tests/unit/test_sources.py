"""Sources: each is read by itself, and one that hangs, raises or floods costs its own reading, counted."""

import threading
from time import monotonic

import pytest
from opentelemetry.sdk.metrics.export import Gauge, Metric, NumberDataPoint

from helpers import points_of
from verl_otel import runtime, semconv
from verl_otel.delivery import sources
from verl_otel.delivery.sources import Source


def metric(name, points=1):
    return Metric(name, "", "", Gauge([NumberDataPoint({"n": one}, 0, 1, 1.0) for one in range(points)]))


@pytest.fixture
def gather(recorded, monkeypatch):
    """Adds sources to this process's reader; gives what one collection finds: metrics of sources, and misses."""
    monkeypatch.setattr(sources, "PATIENCE", 0.2)
    monkeypatch.setattr("verl_otel.delivery.metrics.PATIENCE", 0.2)
    reader, added = runtime.current().pipeline.reader, []

    def collect(*more):
        for one in more:
            added.append(one)
            reader.add_source(one)
        reader.gather(1)
        found = {name for data in reader.sourced() for name in points_of(data)}
        points = points_of(reader.gather(2)).get(semconv.TELEMETRY_MISSED.name, [])
        return found, {tuple(sorted(one.attributes.values())): one.value for one in points}

    yield collect
    for one in added:
        one.stop()


def test_each_has_a_scope_and_a_request_of_its_own(recorded):
    reader = runtime.current().pipeline.reader
    for name in ("a", "b"):
        reader.add_source(Source(name, lambda time: [metric("same")]))
    reader.gather(1)
    found = [data.resource_metrics[0].scope_metrics[0] for data in reader.sourced()]
    assert [one.scope.name for one in found] == ["a", "b"]
    reader.stop_sources()


def test_one_that_raises_costs_nobody_else(gather):
    def broken(time):
        raise ValueError("a bad page")

    found, missed = gather(Source("broken", broken), Source("good", lambda time: [metric("m")]))
    assert found == {"m"}
    assert missed == {("ValueError", "broken"): 1}


def test_one_that_hangs_is_waited_for_once_and_then_counted(gather):
    going_on = threading.Event()

    def hanging(time):
        going_on.wait(10)
        return [metric("late")]

    began = monotonic()
    assert gather(Source("hanging", hanging), Source("good", lambda time: [metric("m")]))[0] == {"m"}
    assert monotonic() - began < 2
    began = monotonic()
    found, missed = gather()
    assert "late" not in found
    assert missed[("hanging", "hangs")] >= 1
    assert monotonic() - began < 0.2, "it was waited for again"
    going_on.set()


def test_a_slow_one_is_told_a_collection_later(gather):
    ready = threading.Event()

    def slow(time):
        ready.wait(10)
        return [metric("slow")]

    source = Source("slow", slow)
    assert gather(source)[0] == set()
    ready.set()
    assert source._done.wait(5)
    assert gather()[0] == {"slow"}


def test_a_flood_is_left_out_as_a_whole(gather, monkeypatch):
    monkeypatch.setattr(sources, "MOST_POINTS", 10)
    found, missed = gather(Source("flood", lambda time: [metric("f", 11)]))
    assert (found, missed) == (set(), {("flood", "too_many"): 1})


def test_a_large_one_is_told_in_portions(recorded, monkeypatch):
    monkeypatch.setattr("verl_otel.delivery.metrics.MOST_IN_REQUEST", 10)
    reader = runtime.current().pipeline.reader
    reader.add_source(Source("large", lambda time: [metric(f"m{number}", 4) for number in range(6)]))
    reader.gather(1)
    found = [points_of(data) for data in reader.sourced()]
    assert [sum(map(len, one.values())) for one in found] == [8, 8, 8]
    assert {name for one in found for name in one} == {f"m{number}" for number in range(6)}
    reader.stop_sources()
