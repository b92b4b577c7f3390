"""What an observed run must have told, checked against verl's own file logger: a list of what is missing."""

import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from captured import Capture, CapturedPoint, CapturedSpan

from verl_otel import semconv
from verl_otel.instrumentors.metric_keys import describe
from verl_otel.telemetry.figures import KEY


def read_log(path: Path) -> list[tuple[int, dict]]:
    """(step, scalars) of each line of verl's file logger; NaN stands as None."""
    return [(line["step"], line["data"]) for line in map(json.loads, path.read_text().splitlines())]


def problems(capture: Capture, log: list[tuple[int, dict]], *, asynchronous: bool = False, ranks: int = 1) -> list[str]:
    """Everything that is not as it must be, in words.

    `ranks`: trainers that each have their own steps, under torchrun.
    `asynchronous`: of a fully async trainer, which makes a step of several updates, logs times of other steps' parts,
    and sets its workers up outside of any method that makes a root.
    """
    wrong = [*_scalars(capture, log), *_spans(capture), *_losses(capture), *_roots(capture, log, asynchronous, ranks)]
    return wrong if asynchronous else wrong + _timers(capture, log)


def lost(capture: Capture) -> int:
    """Items that some process says it dropped, and those it says it sent that are not here."""
    dropped = sum(sum(series.values()) for series in capture.last(semconv.TELEMETRY_DROPPED.name).values())
    here = Counter(span.process for span in capture.spans)
    sent = {process: sum(series.values()) for process, series in capture.last(semconv.EXPORTED["traces"].name).items()}
    return int(dropped + sum(max(0, count - here[process]) for process, count in sent.items()))


def equal(point: CapturedPoint, key: str, value: float | None) -> bool:
    """Whether a point is what was logged: through float32 and the documented change of unit; None is non-finite."""
    if value is None:
        return not math.isfinite(point.value)
    return bool(np.isclose(np.float32(value * describe(key).scale), np.float32(point.value), rtol=1e-6, atol=0))


def snapshot_of(capture: Capture) -> dict[int, dict[str, CapturedPoint]]:
    """Points by step and verl's key, from the snapshots alone."""
    found: dict[int, dict[str, CapturedPoint]] = {}
    for points in capture.snapshots().values():
        step = next(int(one.value) for one in points if one.metric == semconv.STEP_SNAPSHOT.name)
        keyed = {one.attributes[semconv.METRIC_KEY]: one for one in points if semconv.METRIC_KEY in one.attributes}
        found.setdefault(step, {}).update(keyed)
    return found


def _scalars(capture: Capture, log: list[tuple[int, dict]]) -> list[str]:
    """Each log call has a snapshot of its own, in order, with its keys and no other."""
    found = [_keyed(points) for _, points in sorted(capture.snapshots().items(), key=lambda one: one[0][1])]
    if [step for step, _ in found] != [step for step, _ in log]:
        return [f"snapshots are of steps {[step for step, _ in found]}, logged were {[step for step, _ in log]}"]
    wrong = []
    for (step, points), (_, logged) in zip(found, log, strict=True):
        # What verl's loggers are given of ours has metrics of its own.
        data = {key: value for key, value in logged.items() if not key.startswith(KEY)}
        wrong += [f"step {step} lacks {key}" for key in data.keys() - points.keys()]
        wrong += [f"step {step} has {key}, which verl didn't log" for key in points.keys() - data.keys()]
        for key in data.keys() & points.keys():
            if not equal(points[key], key, data[key]):
                wrong.append(f"step {step}: {key} is {points[key].value}, verl logged {data[key]}")
    return wrong


def _keyed(points: list[CapturedPoint]) -> tuple[int, dict[str, CapturedPoint]]:
    step = next(int(one.value) for one in points if one.metric == semconv.STEP_SNAPSHOT.name)
    return step, {one.attributes[semconv.METRIC_KEY]: one for one in points if semconv.METRIC_KEY in one.attributes}


def _spans(capture: Capture) -> list[str]:
    wrong = []
    by_id = {span.id: span for span in capture.spans}
    if len(by_id) < len(capture.spans):
        wrong.append(f"{len(capture.spans) - len(by_id)} span ids are repeated")
    wrong += [f"{span.name} has no parent here" for span in capture.spans if span.parent and span.parent not in by_id]
    for span in capture.spans:
        if span.name.startswith(semconv.SPAN_WORKER) and not {semconv.ROLE, semconv.RANK} <= span.attributes.keys():
            wrong.append(f"{span.name} names no role or rank")
    return wrong


def _roots(capture: Capture, log: list[tuple[int, dict]], asynchronous: bool, ranks: int) -> list[str]:
    roots = _step_roots(capture)
    wrong = [f"{span.name} is no root" for span in roots if span.parent]
    trained = sorted([*{step for step, _ in log if step > 0}] * (1 if asynchronous else ranks))
    steps = [span.attributes.get(semconv.STEP) for span in roots if not span.attributes.get(semconv.TRUNCATED)]
    if sorted(set(steps) if asynchronous else steps) != trained:
        wrong.append(f"roots for steps {steps}, trained were {trained}")
    names = () if asynchronous else (semconv.SPAN_INIT,)
    needed = (*names, *((semconv.SPAN_VALIDATE,) if any(step == 0 for step, _ in log) else ()))
    outside = {span.name for span in capture.spans if not span.parent}
    return wrong + [f"no root {name}" for name in needed if name not in outside]


def _step_roots(capture: Capture) -> list[CapturedSpan]:
    return [span for span in capture.spans if span.name == semconv.SPAN_STEP]


def _timers(capture: Capture, log: list[tuple[int, dict]]) -> list[str]:
    spent: dict[str, Counter] = defaultdict(Counter)
    for span in capture.spans:
        if span.name.startswith(semconv.SPAN_PHASE):
            spent[span.trace][span.attributes[semconv.PHASE]] += span.seconds
    trace = {span.attributes.get(semconv.STEP): span.trace for span in _step_roots(capture)}
    wrong = []
    for step, data in log:
        for key, seconds in data.items():
            if key.startswith("timing_s/"):
                phase = key.removeprefix("timing_s/")
                # The first were measured in other processes, or are no times; the second ran during the step before.
                if phase.startswith("agent_loop/") or phase == "generate_async":
                    continue
                measured = spent[trace.get(step, "")][phase]
                if abs(measured - seconds) > max(0.1 * seconds, 0.05):
                    wrong.append(f"step {step}: {phase} has spans of {measured:.3f} s, verl timed {seconds:.3f} s")
    return wrong


def _losses(capture: Capture) -> list[str]:
    wrong = [f"{count} items were lost"] if (count := lost(capture)) else []
    for process, series in capture.last(semconv.TELEMETRY_ERRORS.name).items():
        wrong += [f"process {process} failed in {dict(place)} {n:.0f} times" for place, n in series.items()]
    if not any(event.name == semconv.EVENT_RUN_END for event in capture.events):
        wrong.append("the driver didn't tell of the run's end")
    return wrong
