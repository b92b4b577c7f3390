"""Reading an engine's own metrics, as against prometheus_client's text exposition of them.

A registry as one vLLM replica's: 12 counters, 12 gauges and 10 histograms of 16 buckets, some 200 series of a text. The
reading is made on a thread of its own, never on an event loop.
"""

from collections.abc import Iterator
from time import process_time, time_ns
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from benchmarks.measuring import Row, alternate, compare, judge, median
from benchmarks.telling import Tell
from verl_otel.bridges.prometheus import Registry

PAIRS: Final = 40
READINGS: Final = 50
LABELS: Final = {"model_name": "model", "engine": "0"}
BUCKETS: Final = [0.01 * 2**power for power in range(15)]


def measure(tell: Tell) -> Iterator[Row]:
    """Rows of the benchmark `bridges`."""
    registry = CollectorRegistry()
    for number in range(12):
        Counter(f"vllm:counter_{number}", "A counter.", [*LABELS], registry=registry).labels(**LABELS).inc(number)
        Gauge(f"vllm:gauge_{number}", "A gauge.", [*LABELS], registry=registry).labels(**LABELS).set(number)
    for number in range(10):
        histogram = Histogram(f"vllm:time_{number}", "Times.", [*LABELS], registry=registry, buckets=BUCKETS)
        for value in range(100):
            histogram.labels(**LABELS).observe(value)
    bridge = Registry(lambda: registry, lambda: {"verl.role": "rollout", "verl.replica": 0})
    lines = generate_latest(registry).decode().splitlines()
    series = sum(not line.startswith("#") and "_created" not in line for line in lines)

    def ours() -> float:
        begun = process_time()
        for _ in range(READINGS):
            list(bridge.read(time_ns()))
        return (process_time() - begun) / READINGS

    def text() -> float:
        begun = process_time()
        for _ in range(READINGS):
            generate_latest(registry)
        return (process_time() - begun) / READINGS

    ours(), text()  # the first warms up
    mine, theirs = alternate(PAIRS, ours, text, lambda done: tell(done, PAIRS))
    milliseconds = median([1e3 * one for one in mine])
    note = f"{series} series of a text"
    yield Row("bridges", "CPU of reading a replica's metrics", milliseconds, " ms", 5.0, note, judge(milliseconds, 5.0))
    yield compare("bridges", "reading a replica's metrics / their text exposition", mine, theirs, budget=0.1)
