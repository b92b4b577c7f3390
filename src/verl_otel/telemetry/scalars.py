"""The scalars a trainer logs, as metric data: a snapshot for each call, and the last values again at the interval.

The training thread stamps and queues; values become numbers here, in the gatherer's thread. Nothing is an instrument:
instruments refuse NaN, fold names that differ in case, and repeat a step's values in the next step's collection.
"""

import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import Any, Final

from opentelemetry.sdk.metrics.export import Gauge, Metric, NumberDataPoint

from verl_otel import runtime, semconv
from verl_otel.delivery.points import counter, gauge
from verl_otel.guard import guard


@dataclass(frozen=True)
class ScalarName:
    """How a key is exported: metric name, UCUM unit, attributes beside the key, and what its value is multiplied by."""

    name: str
    unit: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    scale: float = 1.0


Describe = Callable[[str], ScalarName]

MAX_NAME: Final = 255
"""Longest metric name that OpenTelemetry's API allows."""


class _Scalars:
    """What a process knows of its scalars."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, ScalarName] = {}
        self._units: dict[str, str] = {}
        self._last: dict[str, float] = {}
        self._start = time_ns()
        self.nonfinite: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.cut = 0
        self.clashes = 0

    def snapshot(self, data: Mapping[Any, Any], step: int, time: int, describe: Describe, most: int) -> list[Metric]:
        """The metrics of one `log` call: its own keys only, at one time, and the mark."""
        with self._lock:
            values = {}
            for key, value in data.items():
                with guard("scalar"):
                    if (number := self._number(value)) is not None and self._name(str(key), describe, most) is not None:
                        values[str(key)] = number
                        if not math.isfinite(number):
                            self.nonfinite[str(key)] += 1
            self._last.update(values)
            return [gauge(semconv.STEP_SNAPSHOT, [({}, step)], time), *self._metrics(values, time)]

    def repeated(self) -> list[Metric]:
        """The last value of every key, at this moment, and what was left out so far."""
        with self._lock:
            metrics = self._metrics(self._last, time_ns())
            counts: list[tuple[semconv.MetricName, list[tuple[dict[str, str], float]]]] = [
                (semconv.METRIC_NONFINITE, [({semconv.METRIC_KEY: key}, n) for key, n in self.nonfinite.items()]),
                (semconv.METRIC_SKIPPED, [({semconv.VALUE_TYPE: kind}, n) for kind, n in self.skipped.items()]),
                (semconv.METRIC_CUT, [({}, self.cut)] if self.cut else []),
                (semconv.METRIC_CLASHES, [({}, self.clashes)] if self.clashes else []),
            ]
            return metrics + [counter(metric, points, self._start) for metric, points in counts if points]

    def _number(self, value: Any) -> float | None:
        number = to_number(value)
        if number is None:
            self.skipped[type(value).__name__] += 1
        return number

    def _name(self, key: str, describe: Describe, most: int) -> ScalarName | None:
        if (known := self._names.get(key)) is not None:
            return known
        if len(self._names) >= most:
            self.cut += 1
            return None
        found = describe(key)
        if self._units.setdefault(found.name, found.unit) != found.unit:
            # One name, one unit: the second key keeps its own name, out of everyone's way, and its raw value.
            self.clashes += 1
            found = ScalarName(f"verl.key.{plain(key)}"[:MAX_NAME])
            self._units[found.name] = found.unit
        self._names[key] = found
        return found

    def _metrics(self, values: Mapping[str, float], time: int) -> list[Metric]:
        points: dict[str, list[NumberDataPoint]] = {}
        for key, value in values.items():
            name = self._names[key]
            attributes = {semconv.METRIC_KEY: key, **dict(name.attributes)}
            points.setdefault(name.name, []).append(NumberDataPoint(attributes, 0, time, value * name.scale))
        return [Metric(name, "", self._units[name], Gauge(found)) for name, found in points.items()]


_scalars = _Scalars()


def log(data: Mapping[Any, Any], step: Any, describe: Describe) -> None:
    """Stamp and queue what a trainer logs for `step`. Copies the mapping, converts nothing, waits for nothing."""
    current = runtime.current()
    if (reader := current.pipeline.reader) is None:
        return
    now, copied, most = time_ns(), dict(data), current.settings.max_keys
    reader.put_snapshot(lambda: _scalars.snapshot(copied, int(step), now, describe, most))


def repeated() -> Iterable[Metric]:
    """Producer of the last values, so that a backend that forgets silent series keeps them between steps."""
    return _scalars.repeated()


def to_number(value: Any) -> float | None:
    """A float for Python, NumPy and torch numbers, bools and arrays of one element; None for anything else.

    Integers beyond float's range are infinite, as they are for every backend. Raises what the value's own conversion
    raises.
    """
    if isinstance(value, bool | int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if value is None or isinstance(value, str | bytes):
        return None
    if isinstance(value, list | tuple):
        return to_number(value[0]) if len(value) == 1 else None
    size = getattr(value, "numel", None) or getattr(value, "size", None)  # torch, NumPy
    if (size() if callable(size) else size) != 1:
        return None
    number = value.item()
    return to_number(number) if isinstance(number, bool | int | float) else None


def plain(text: str) -> str:
    """A key in OpenTelemetry's letters: lower case, `/` to `.`, anything else but letters, digits and `.` to `_`."""
    return "".join(
        one if one.isascii() and (one.isalnum() or one == ".") else "_"
        for one in text.strip("/").lower().replace("/", ".")
    )


def reset() -> None:
    """Forget everything, in a forked child and between tests."""
    global _scalars
    _scalars = _Scalars()


os.register_at_fork(after_in_child=reset)
