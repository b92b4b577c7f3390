"""The scalars of a process as metric data: names settled once, values made numbers, last values kept to be repeated.

Nothing is an instrument: instruments refuse NaN, fold names that differ in case, and repeat a step's values in the next
step's collection.
"""

import math
import threading
from collections import Counter
from collections.abc import Mapping
from time import time_ns
from types import MappingProxyType
from typing import Any, Final

from opentelemetry.sdk.metrics.export import Gauge, Metric, NumberDataPoint

from verl_otel import semconv
from verl_otel.delivery.points import counter, gauge
from verl_otel.guard import guard
from verl_otel.telemetry import hooks
from verl_otel.telemetry.scalars import MAX_NAME, Describe, ScalarName, plain, to_number

MAX_KEY: Final = 1024
"""Longest key, in characters: each is kept, and sent again at every interval."""


class ScalarStore:
    """Names, units, last values and what was left out. Called by the gatherer's thread only, but for tests."""

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
            values = self._values(data, describe, most)
            values |= self._values(hooks.on_scalars(MappingProxyType(values), step), describe, most)
            self._last.update(values)
            return [gauge(semconv.STEP_SNAPSHOT, [({}, step)], time), *self._metrics(values, time)]

    def repeated(self, time: int) -> list[Metric]:
        """The last value of every key, at `time`, and what was left out so far."""
        with self._lock:
            metrics = self._metrics(self._last, time)
            counts: list[tuple[semconv.MetricName, list[tuple[dict[str, str], float]]]] = [
                (semconv.METRIC_NONFINITE, [({semconv.METRIC_KEY: key}, n) for key, n in self.nonfinite.items()]),
                (semconv.METRIC_SKIPPED, [({semconv.VALUE_TYPE: kind}, n) for kind, n in self.skipped.items()]),
                (semconv.METRIC_CUT, [({}, self.cut)] if self.cut else []),
                (semconv.METRIC_CLASHES, [({}, self.clashes)] if self.clashes else []),
            ]
            return metrics + [counter(metric, points, self._start, time) for metric, points in counts if points]

    def _values(self, data: Mapping[Any, Any], describe: Describe, most: int) -> dict[str, float]:
        values = {}
        for key, value in data.items():
            with guard("scalar"):
                # UTF-8 can't hold a lone surrogate, and the encoder would leave the key out.
                name = str.encode(str(key), errors="backslashreplace").decode()
                if len(name) > MAX_KEY:
                    self.skipped["key too long"] += 1
                elif (number := self._number(value)) is not None and self._name(name, describe, most) is not None:
                    values[name] = number
                    if not math.isfinite(number):
                        self.nonfinite[name] += 1
        return values

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
            found = ScalarName(f"{semconv.SCALAR_KEPT_APART}{plain(key)}"[:MAX_NAME])
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
