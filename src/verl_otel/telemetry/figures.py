"""What a step's numbers mean together: computed once, in the trainer, when it logs the step.

A sample or message of a node belongs to the step that was going on when it was made; what arrives after the step's log,
up to some seconds late, counts for the next.
"""

import os
import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from verl_otel import semconv
from verl_otel.semconv import MetricName
from verl_otel.semconv import hardware as names
from verl_otel.telemetry import engine_load, recording
from verl_otel.telemetry.instruments import produce

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric

MOST_PHASES: Final = 200
"""Finished phases that are remembered for samples that come late."""

KEY: Final = "verl_otel/"
"""How the keys begin under which verl's own loggers get these."""

EFFECTIVE: Final = "effective"
TRAINER: Final = "trainer"
ROLLOUT: Final = "rollout"
_MOST: Final = 1e300
"""Beyond it a number is none for us; NaN is neither below nor above."""
_TRAINING: Final = ("old_log_prob", "ref", "values", "adv", "update_critic", "update_actor")

_ASKED: Final = (
    "perf/total_num_tokens",
    "perf/time_per_step",
    "perf/throughput",
    "prompt_length/mean",
    "response_length/mean",
    "timing_s/gen",
    *(f"timing_s/{phase}" for phase in _TRAINING),
)

Labels = dict[str, Any]


@dataclass
class Figures:
    """Of one step; empty where nothing is known. Seconds, joules, tokens a second, shares from 0 to 1."""

    energy: float | None = None
    idle: dict[str, dict[str, float]] = field(default_factory=dict)
    """By phase and GPU."""
    throughput: dict[str, float] = field(default_factory=dict)
    gpus: int | None = None
    straggling: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    """By phase and role: how much slower the slowest rank was than the median, and which it was."""
    engines: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    """By role and replica: what the engine said last."""

    def after(self, before: "Figures") -> "Figures":
        """These, and what was known of the same step before."""
        spent = [one for one in (before.energy, self.energy) if one is not None]
        return Figures(
            sum(spent) if spent else None,
            {**before.idle, **self.idle},
            self.throughput or before.throughput,
            self.gpus or before.gpus,
            {**before.straggling, **self.straggling},
            {**before.engines, **self.engines},
        )

    def points(self) -> Iterator[tuple[MetricName, Labels, float]]:
        """As metrics with their labels."""
        if self.energy is not None:
            yield semconv.STEP_ENERGY, {}, self.energy
        for phase, gpus in self.idle.items():
            for gpu, share in gpus.items():
                yield semconv.GPU_IDLE, {semconv.PHASE: phase, names.HW_ID: gpu}, share
        for kind, rate in self.throughput.items():
            yield semconv.STEP_THROUGHPUT, {semconv.THROUGHPUT: kind}, rate
            if self.gpus:
                yield semconv.STEP_GPU_THROUGHPUT, {semconv.THROUGHPUT: kind}, rate / self.gpus
        for (phase, role), (gap, rank) in self.straggling.items():
            labels = {semconv.PHASE: phase, semconv.ROLE: role}
            yield semconv.STRAGGLER_GAP, labels, gap
            yield semconv.STRAGGLER_RANK, labels, rank

    def scalars(self) -> dict[str, float]:
        """As scalars for verl's own loggers, over GPUs, replicas and roles."""
        found: dict[str, float] = {}
        if self.energy is not None:
            found["gpu_energy_j"] = self.energy
        for phase, gpus in self.idle.items():
            found[f"gpu_idle/{phase}"] = sum(gpus.values()) / len(gpus)
        for kind, rate in self.throughput.items():
            found[f"tokens_per_s/{kind}"] = rate
            if self.gpus:
                found[f"tokens_per_s_per_gpu/{kind}"] = rate / self.gpus
        for (phase, role), (gap, rank) in self.straggling.items():
            found[f"straggler_gap_s/{phase}/{role}"] = gap
            found[f"straggler_rank/{phase}/{role}"] = rank
        for name in ("running_peak", "running_limit", "kv_cache_peak", "preemptions"):
            values = [engine[name] for engine in self.engines.values() if name in engine]
            if values:
                found[f"engine/{name}"] = max(values)
        return {KEY + name: value for name, value in found.items()}


_lock = threading.RLock()
"""Reentrant: a generator that is collected while it is held may end a phase."""
_phases: deque[tuple[str, int, int]] = deque(maxlen=MOST_PHASES)
"""Finished ones: name, begin and end in ns since the epoch."""
_calls: dict[tuple[int | None, str, str], dict[int, float]] = {}
_engines: dict[tuple[str, int], dict[str, float]] = {}
_energy: dict[str, float] = {}
"""What each GPU's counter said last, in J."""
_last = Figures()
_logged: int | None = None
"""The step that they are of."""


class _Gathered:
    """Of the samples since the last step's log."""

    def __init__(self) -> None:
        self.spent: float | None = None
        self.idle: dict[str, dict[str, tuple[float, int]]] = defaultdict(dict)


_gathered = _Gathered()

CALL: Final = "call"
"""Kind of the message about a worker's call."""


def take(report: Mapping[str, Any]) -> None:
    """What a node says that is new: samples `[time, {gpu: [utilization, energy]}]`, and messages of its processes."""
    with _lock:
        for time, gpus in report["gpus"]:
            within = _phases_at(int(time))
            for gpu, (utilization, energy) in gpus.items():
                if energy is not None:
                    _gather_energy(gpu, energy)
                if utilization is not None:
                    _gather_idle(gpu, utilization, within)
        for _, message in report["messages"]:
            _hear(message)


def _phases_at(time: int) -> set[str]:
    """Those that were going on then, finished by now or not."""
    finished = {name for name, begin, end in _phases if begin <= time <= end}
    unfinished = {
        attributes[semconv.PHASE]
        for attributes, begin in recording.shown_open()
        if semconv.PHASE in attributes and semconv.RANK not in attributes and begin <= time
    }
    return finished | unfinished


def _gather_energy(gpu: str, energy: float) -> None:
    before = _energy.get(gpu)
    _energy[gpu] = energy
    if before is not None:
        _gathered.spent = (_gathered.spent or 0.0) + max(0.0, energy - before)


def _gather_idle(gpu: str, utilization: float, within: set[str]) -> None:
    for name in within:
        total, count = _gathered.idle[name].get(gpu, (0.0, 0))
        _gathered.idle[name][gpu] = total + 1 - utilization, count + 1


def _hear(message: Mapping[str, Any]) -> None:
    if message.get("kind") == CALL:
        ranks = _calls.setdefault((message["step"], message["phase"], message["role"]), {})
        ranks[message["rank"]] = ranks.get(message["rank"], 0.0) + message["seconds"]
    elif message.get("kind") == engine_load.ENGINE:
        one = _engines.setdefault((message["role"], message["replica"]), {})
        for name, value in message["values"].items():
            one[name] = max(value, one.get(name, value))


def of_step(step: int, data: Mapping[Any, Any]) -> Figures:
    """What is known of the step that is being logged; `data` is what verl logs of it, by its keys."""
    global _last, _logged, _gathered
    with _lock:
        gathered, _gathered = _gathered, _Gathered()
        calls = {key: _calls.pop(key) for key in list(_calls) if key[0] is None or key[0] <= step}
        engines = dict(_engines)
        _engines.clear()
    throughput, gpus = _throughput_of(_numbers(data))
    found = Figures(
        gathered.spent,
        {
            phase: {gpu: total / count for gpu, (total, count) in found.items()}
            for phase, found in gathered.idle.items()
        },
        throughput,
        gpus,
        dict(_straggling_of(calls)),
        engines,
    )
    # A fully async step is logged in several calls.
    _last = found.after(_last) if _logged == step else found
    _logged = step
    return _last


def _is_plain(value: Any) -> bool:
    kind = type(value)
    return kind in (int, float) or (kind.__module__ == "numpy" and isinstance(value, float))


def _numbers(data: Any) -> dict[str, float]:
    """What is asked of verl's scalars; nothing else is touched, since a user's own may do anything when it is."""
    if type(data) is not dict:
        return {}
    found = {key: data[key] for key in _ASKED if key in data and _is_plain(data[key])}
    return {key: float(value) for key, value in found.items() if -_MOST < value < _MOST}


def _straggling_of(
    calls: Mapping[tuple[int | None, str, str], Mapping[int, float]],
) -> Iterator[tuple[tuple[str, str], tuple[float, int]]]:
    for (_, phase, role), ranks in sorted(calls.items(), key=lambda one: one[0][0] or 0):
        if len(ranks) > 1:
            slowest = max(ranks, key=lambda rank: ranks[rank])
            yield (phase, role), (ranks[slowest] - median(ranks.values()), slowest)


def _throughput_of(data: Mapping[str, float]) -> tuple[dict[str, float], int | None]:
    """Tokens a second, and the number of GPUs; verl's perf/throughput is tokens a second and GPU (metric_utils.py)."""
    tokens, seconds = data.get("perf/total_num_tokens"), data.get("perf/time_per_step")
    if not tokens or not seconds:
        return {}, None
    found = {EFFECTIVE: tokens / seconds}
    if training := sum(data.get(f"timing_s/{phase}", 0.0) for phase in _TRAINING):
        found[TRAINER] = tokens / training
    prompt, response, rollout = (
        data.get(key) for key in ("prompt_length/mean", "response_length/mean", "timing_s/gen")
    )
    if response and rollout and prompt is not None:
        found[ROLLOUT] = tokens * response / (prompt + response) / rollout
    each = data.get("perf/throughput")
    return found, max(1, round(found[EFFECTIVE] / each)) if each else None


def metrics(figures: Figures, time: int) -> "list[Metric]":
    """As metric data of `time` (ns since the epoch)."""
    from verl_otel.delivery.points import gauge

    points: dict[str, tuple[MetricName, list[tuple[Labels, float]]]] = {}
    for metric, labels, value in figures.points():
        points.setdefault(metric.name, (metric, []))[1].append((labels, value))
    return [gauge(metric, found, time) for metric, found in points.values()]


def repeated(time: int) -> "Iterable[Metric]":
    """The last step's."""
    return metrics(_last, time)


def _phase_ended(attributes: Mapping[str, Any], seconds: float) -> None:
    if semconv.PHASE in attributes and semconv.RANK not in attributes:
        now = time_ns()
        with _lock:
            _phases.append((attributes[semconv.PHASE], now - int(seconds * 1e9), now))


def reset() -> None:
    """Forget everything, in a forked child and between tests."""
    global _lock, _last, _logged, _gathered
    _lock, _last, _logged, _gathered = threading.RLock(), Figures(), None, _Gathered()
    for one in (_phases, _calls, _engines, _energy):
        one.clear()


produce(repeated)
recording.on_end(_phase_ended)
os.register_at_fork(after_in_child=reset)
