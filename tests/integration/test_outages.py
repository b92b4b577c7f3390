"""A backend that is away: what is kept, in how much memory, what goes first where it doesn't fit, all of it counted.

TEST_OUTAGE_SECONDS says how long the outage under load lasts.
"""

import json
import os
from time import time_ns

from opentelemetry._logs import SeverityNumber

from otlp_server import GrpcSink, HttpSink
from sending import (
    GRPC,
    HTTP,
    SINKS,
    environment,
    eventually,
    log_step,
    make_spans,
    over_both,
    run,
    send_to,
    statistics,
    unused_port,
)
from verl_otel import runtime
from verl_otel.delivery.core import Reason, Signal
from verl_otel.telemetry import events


@over_both
def test_an_outage_in_the_middle_loses_nothing_and_repeats_nothing(monkeypatch, protocol):
    with SINKS[protocol]() as before:
        send_to(monkeypatch, before.endpoint, protocol)
        first = make_spans(0, 700)
        assert runtime.flush(20)
    second = make_spans(700, 1400)
    assert not runtime.flush(1)
    with SINKS[protocol](port=before.port) as after:
        third = make_spans(1400, 1500)
        assert eventually(lambda: len(after.spans()) >= 800)
        assert runtime.flush(20)
        assert before.spans() == first
        assert after.spans() == second + third
    assert statistics().dropped == {}


def test_a_grpc_backend_that_comes_up_later_gets_everything(monkeypatch):
    port = unused_port()
    send_to(monkeypatch, f"http://127.0.0.1:{port}", GRPC, Signal)
    names = make_spans(0, 10)
    log_step(1)
    events.emit("verl.run.start", {})
    assert eventually(lambda: statistics().retries.keys() == set(Signal))
    with GrpcSink(port=port) as sink:
        assert eventually(lambda: (sink.spans(), sink.steps(), sink.records()) == (names, [1], ["verl.run.start"]))
    assert statistics().dropped == {}


# A queue that is full. Nothing comes at the interval here, so that every point is of a snapshot.

FULL = {"VERL_OTEL_QUEUE_MIB": "1", "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}


class Offered:
    """Records and counts, waiting after each portion until it is in the queue, or dropped."""

    def __init__(self):
        self.items = dict.fromkeys(Signal, 0)

    def spans(self, count, size=1000):
        first = self.items[Signal.TRACES]
        make_spans(first, first + count, text="x" * size)
        self._wait(Signal.TRACES, count)

    def messages(self, count):
        for number in range(count):
            events.message(f"message {number}", {"text": "x" * 1000}, SeverityNumber.WARN, time_ns())
        self._wait(Signal.LOGS, count)

    def steps(self, first, last):
        for step in range(first, last):
            log_step(step, **{f"{'k' * 100}{key}": key for key in range(9)})
        self._wait(Signal.METRICS, 10 * (last - first))

    def events(self, count):
        for number in range(count):
            events.emit(f"event {number}", {})
        self._wait(Signal.LOGS, count)

    def _wait(self, signal, count):
        self.items[signal] += count
        total = sum(self.items.values())
        assert eventually(lambda: statistics().queued_items + sum(statistics().dropped.values()) == total)
        assert statistics().queued_bytes <= 1 << 20

    def all_is_accounted_for(self):
        found = statistics()
        settled = {
            signal: found.exported.get(signal, 0) + found.dropped.get((signal, Reason.QUEUE_FULL), 0)
            for signal in Signal
        }
        return settled == self.items and {reason for _, reason in found.dropped} <= {Reason.QUEUE_FULL}


def lost():
    return {signal: count for (signal, _), count in statistics().dropped.items()}


def test_log_messages_go_before_spans_and_spans_before_snapshots_and_events(monkeypatch):
    port = unused_port()
    send_to(monkeypatch, f"http://127.0.0.1:{port}", HTTP, Signal, **FULL)
    offered = Offered()
    offered.steps(0, 100)
    offered.events(20)
    for _ in range(8):
        offered.messages(40)
    while not lost():
        offered.spans(60)
    assert lost().keys() == {Signal.LOGS}
    while lost().keys() == {Signal.LOGS}:
        offered.spans(60)
    assert lost()[Signal.LOGS] == 320  # every message, no event
    assert lost().keys() == {Signal.LOGS, Signal.TRACES}
    with HttpSink(port=port) as sink:
        assert eventually(lambda: statistics().queued_items == 0)
        assert sink.steps() == list(range(100))
        assert sink.records() == [f"event {number}" for number in range(20)]
        newest = range(lost()[Signal.TRACES], offered.items[Signal.TRACES])
        assert sink.spans() == [str(number) for number in newest]
    assert offered.all_is_accounted_for()


def test_snapshots_are_lost_only_when_nothing_else_is_left_and_the_oldest_first(monkeypatch):
    port = unused_port()
    send_to(monkeypatch, f"http://127.0.0.1:{port}", HTTP, Signal, **FULL)
    offered = Offered()
    offered.spans(200)
    step = 0
    while Signal.METRICS not in lost():
        offered.steps(step, step + 50)
        step += 50
    assert lost()[Signal.TRACES] == 200
    with HttpSink(port=port) as sink:
        assert eventually(lambda: statistics().queued_items == 0)
        first = lost()[Signal.METRICS] // 10
        assert 0 < first < step
        assert sink.steps() == list(range(first, step))
    assert offered.all_is_accounted_for()


# Memory

LOAD = """
import json, os, resource, sys, time
from opentelemetry._logs import SeverityNumber
from verl_otel import runtime
from verl_otel.delivery.core import Reason, Signal
from verl_otel.telemetry import events, scalars

seconds = float(sys.argv[1])
made = {"traces": 0, "snapshots": 0, "logs": 0}
scalar = {f"actor/scalar_{number}": 1.0 * number for number in range(100)}

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def load():
    for number in range(75):
        runtime.current().tracer.start_span("load", attributes={"number": number, "text": "x" * 1700}).end()
    for number in range(15):
        events.message("load", {"text": "y" * 500}, SeverityNumber.WARN, time.time_ns())
    made["traces"] += 75
    made["logs"] += 15
    if made["logs"] % 150 == 0:  # twice a second, a minute's worth of steps
        scalars.log(scalar, made["snapshots"], lambda key: scalars.ScalarName("verl." + key.replace("/", ".")))
        made["snapshots"] += 1

load()
pipeline = runtime.current().pipeline
while set(pipeline.statistics().retries) != set(Signal):  # what is imported late is there
    load()
    time.sleep(0.05)
before, most, queued, start, ticks = resident(), 0, 0, time.monotonic(), 0
while time.monotonic() - start < seconds or ticks < 15 * seconds:
    load()
    ticks += 1
    most, queued = max(most, resident()), max(queued, pipeline.statistics().queued_bytes)
    time.sleep(max(0.0, start + ticks / 20 - time.monotonic()))
runtime.stop()

def counted(signal):
    return sum(count for (one, _), count in pipeline.statistics().dropped.items() if one is signal)

deadline = time.monotonic() + 20  # what is being gathered at the end is counted a little later
while (counted(Signal.TRACES), counted(Signal.LOGS)) != (made["traces"], made["logs"]):
    if time.monotonic() > deadline:
        break
    time.sleep(0.1)
found = pipeline.statistics()
dropped = {}
for (signal, reason), count in found.dropped.items():
    dropped.setdefault(signal.value, {})[reason.value] = count
print(json.dumps({"made": made, "grown": most - before, "queued": queued, "exported": dict(found.exported),
                  "dropped": dropped}))
"""


def test_a_dead_backend_under_load_costs_no_more_memory_than_allowed_and_every_loss_is_counted():
    seconds = float(os.environ.get("TEST_OUTAGE_SECONDS", "20"))
    dead = environment(f"http://127.0.0.1:{unused_port()}", HTTP)
    out, err, status, _ = run(LOAD, dead, [seconds], timeout=seconds * 3 + 90)
    assert status == 0, err
    found = json.loads(out)
    print(found)
    assert found["queued"] <= 48 << 20
    assert found["grown"] <= 64 << 20
    assert found["exported"] == {}
    assert sum(found["dropped"]["traces"].values()) == found["made"]["traces"]
    assert sum(found["dropped"]["logs"].values()) == found["made"]["logs"]
    # As much as the queue holds is left at the end; before that went, in this order:
    assert found["dropped"]["logs"]["queue_full"] > 0.9 * found["made"]["logs"]
    assert 0 < found["dropped"]["traces"]["queue_full"] < found["made"]["traces"]
    assert found["dropped"]["metrics"]["exit"] >= found["made"]["snapshots"] * 101
