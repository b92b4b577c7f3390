"""An engine's own `/metrics` page, read again and again while the run goes on, beside what arrives of it by OTLP."""

import math
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field

import requests

from bridged import counting, of_text, samples
from verl_otel import semconv
from verl_otel.bridges.prometheus import SOURCE

ADDED = (semconv.ROLE, semconv.REPLICA)
"""Labels that a bridged point has beside its own."""
ENGINE = re.compile(r"LLMServerManager: \['([^']+)'\]")
QUEUE = re.compile(r"Prometheus metrics endpoint: http://([^/\s]+)/metrics")
"""How the run's output names the address of a page."""


@dataclass
class Page:
    """What it said at some moment between two times, in ns since the epoch."""

    asked: int
    answered: int
    samples: dict
    counting: set


@dataclass
class Pages:
    """Give `follow` to `observe` as what to do meanwhile. `address`: how the page's stands in the run's output."""

    address: re.Pattern = ENGINE
    read: list = field(default_factory=list)

    def follow(self, running, receiver):
        address = None
        while running.process.poll() is None:
            time.sleep(0.3)
            if address is None:
                found = self.address.search(running.run.output.read_text(errors="replace"))
                address = found and found.group(1)
                continue
            asked = time.time_ns()
            try:
                text = requests.get(f"http://{address}/metrics", timeout=5).text
            except requests.RequestException:  # it isn't up yet, or not any more
                continue
            self.read.append(Page(asked, time.time_ns(), of_text(text), counting(text)))


def readings(capture, scope=SOURCE):
    """What arrived of the engine's metrics, by the time of reading, as samples of its page."""
    found = defaultdict(dict)
    for point in capture.points:
        if point.scope == scope:
            labels = {name: value for name, value in point.attributes.items() if name not in ADDED}
            found[point.time] |= samples(point.metric, labels, point)
    return dict(sorted(found.items()))


@dataclass
class Compared:
    """How a reading compares with the pages just before and after it: samples it lacks, and those that can't be."""

    missing: set
    wrong: dict
    idle: bool


def compare(reading, at, pages, gauges=True):
    """Each sample against the last page answered before `at` and the first one asked after; None without both.

    What counts must lie between them, and where nothing counted on, all must be equal. `gauges`: those too; some tell
    of the process, and never rest.
    """
    before = [one for one in pages if one.answered <= at]
    after = [one for one in pages if one.asked >= at]
    if not before or not after:
        return None
    first, last = before[-1].samples, after[0].samples
    counted = {key for key in first.keys() & last.keys() if key[0] in before[-1].counting and _is_engines(key)}
    idle = all(first[key] == last[key] for key in counted)
    judged = {key for key in first.keys() & last.keys() if _is_engines(key)} if idle and gauges else counted
    found = {key: (first[key], reading.get(key), last[key]) for key in judged & reading.keys()}
    wrong = {key: values for key, values in found.items() if not _is_between(*values)}
    return Compared(first.keys() - reading.keys(), wrong, idle)


def _is_between(first, value, last):
    """Some of SGLang's are no number until they are known."""
    return first <= value <= last or (math.isnan(value) and (math.isnan(first) or math.isnan(last)))


def _is_engines(key):
    """Not of the process, whose memory and times never rest."""
    return not key[0].startswith(("process_", "python_"))


def check_queue(run, pages):
    """Every reading of TransferQueue's controller that has a page before and after it."""
    found = [
        one
        for at, reading in readings(run.capture, "transfer_queue.controller").items()
        if (one := compare(reading, at, pages, gauges=False)) is not None
    ]
    assert {key for one in found for key in one.missing} == set()
    assert {key: values for one in found for key, values in one.wrong.items()} == {}
    assert len(found) > 3
    assert any(not one.idle for one in found)
    return len(found)


def check(run):
    """Every reading of the engine's metrics, against its page; says how many there were, idle and at work."""
    compared = [
        found for at, reading in readings(run.capture).items() if (found := compare(reading, at, run.pages)) is not None
    ]
    assert {key for one in compared for key in one.missing} == set()
    assert {key: values for one in compared for key, values in one.wrong.items()} == {}
    idle = sum(one.idle for one in compared)
    assert idle > 1
    assert len(compared) > idle, "the engine never worked while it was read"
    last = list(readings(run.capture).values())[-1]
    assert {
        key: value
        for key, value in run.pages[-1].samples.items()
        if _is_engines(key) and not _is_between(value, last[key], value)
    } == {}
    return len(compared), idle
