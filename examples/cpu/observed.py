"""What an observed run must have told, checked against verl's own file logger: a list of what is missing."""

import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from verl_otel import semconv
from verl_otel.instrumentors.metric_keys import describe
from verl_otel.local.capture import Capture, CapturedPoint, CapturedSpan

OUTSIDE = (semconv.SPAN_INIT, semconv.SPAN_VALIDATE, semconv.SPAN_WARMUP)


def read_log(path: Path) -> list[tuple[int, dict]]:
    """(step, scalars) of each line of verl's file logger; NaN stands as None."""
    return [(line["step"], line["data"]) for line in map(json.loads, path.read_text().splitlines())]


def problems(capture: Capture, log: list[tuple[int, dict]]) -> list[str]:
    """Everything that is not as it must be, in words."""
    return [*_scalars(capture, log), *_spans(capture, log), *_losses(capture)]


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
    found = snapshot_of(capture)
    wrong = [f"step {step} has no snapshot" for step, _ in log if step not in found]
    for step, data in log:
        points = found.get(step, {})
        wrong += [f"step {step} lacks {key}" for key in data.keys() - points.keys()]
        wrong += [f"step {step} has {key}, which verl didn't log" for key in points.keys() - data.keys()]
        for key in data.keys() & points.keys():
            if not equal(points[key], key, data[key]):
                wrong.append(f"step {step}: {key} is {points[key].value}, verl logged {data[key]}")
    return wrong


def _spans(capture: Capture, log: list[tuple[int, dict]]) -> list[str]:
    wrong = []
    by_id = {span.id: span for span in capture.spans}
    if len(by_id) < len(capture.spans):
        wrong.append(f"{len(capture.spans) - len(by_id)} span ids are repeated")
    wrong += [f"{span.name} has no parent here" for span in capture.spans if span.parent and span.parent not in by_id]
    roots = [span for span in capture.spans if span.name == semconv.SPAN_STEP]
    trained = sorted(step for step, _ in log if step > 0)
    if sorted(span.attributes.get(semconv.STEP) for span in roots) != trained:
        wrong.append(f"roots for steps {[span.attributes.get(semconv.STEP) for span in roots]}, trained were {trained}")
    for name in (semconv.SPAN_INIT, *((semconv.SPAN_VALIDATE,) if any(step == 0 for step, _ in log) else ())):
        if not any(span.name == name and not span.parent for span in capture.spans):
            wrong.append(f"no root {name}")
    wrong += [f"{span.name} is no root" for span in roots if span.parent]
    for span in capture.spans:
        if span.name.startswith(semconv.SPAN_WORKER) and not {semconv.ROLE, semconv.RANK} <= span.attributes.keys():
            wrong.append(f"{span.name} names no role or rank")
    return wrong + _timers(capture, log, roots)


def _timers(capture: Capture, log: list[tuple[int, dict]], roots: list[CapturedSpan]) -> list[str]:
    spent: dict[str, Counter] = defaultdict(Counter)
    for span in capture.spans:
        if span.name.startswith(semconv.SPAN_PHASE):
            spent[span.trace][span.attributes[semconv.PHASE]] += span.seconds
    trace = {span.attributes.get(semconv.STEP): span.trace for span in roots}
    wrong = []
    for step, data in log:
        for key, seconds in data.items():
            if key.startswith("timing_s/"):
                phase = key.removeprefix("timing_s/")
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
