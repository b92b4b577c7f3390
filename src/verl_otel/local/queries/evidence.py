"""What alerts are judged by, as Prometheus would see it: values at ticks of 15 s, each the newest one until then."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from verl_otel.local.queries.histograms import Merged, merged
from verl_otel.local.queries.reading import SECOND, Cursor, path, rows

TICK: Final = 15 * SECOND
HOUR: Final = 240
MINUTE: Final = 4
"""In ticks."""
STALE: Final = 5 * MINUTE
"""A gauge that was not told for so long has no value any more."""
_SCALARS_BACK: Final = 8 * HOUR
_POINTS_BACK: Final = 3 * HOUR

Labels = tuple[str, ...]
Found = dict[Labels, float]
T = TypeVar("T")

# verl's scalars are repeated until the next step, so one counts until it is logged again.
_SCALAR: Final = """
    SELECT greatest(time // $tick, $since) AS tick, arg_max(value, time) AS value FROM scalars
    WHERE key = $key AND time <= $at GROUP BY ALL ORDER BY tick
"""
_GAUGE: Final = """
    SELECT [coalesce(CASE one WHEN $host_path THEN host ELSE series.attributes ->> one END, '')
            FOR one IN $labels::VARCHAR[]] AS labels,
        time // $tick AS tick, max(value) AS value
    FROM points JOIN series USING (series) LEFT JOIN processes USING (process)
    WHERE metric = $metric AND time > $since * $tick AND time <= $at GROUP BY ALL ORDER BY tick
"""
_COUNTER: Final = """
    WITH ours AS (SELECT series, delta, process, attributes FROM series WHERE metric = $metric),
    told AS (
        SELECT series, time, value FROM points
        WHERE series IN (SELECT series FROM ours) AND time > $since * $tick AND time <= $at
        UNION ALL
        SELECT series, max(time), arg_max(value, time) FROM points
        WHERE series IN (SELECT series FROM ours) AND time <= $since * $tick GROUP BY series
    ),
    grown AS (
        SELECT attributes, process, delta, time, value, lag(value) OVER (PARTITION BY series ORDER BY time) AS before
        FROM told JOIN ours USING (series)
    )
    SELECT [coalesce(CASE one WHEN $host_path THEN host ELSE grown.attributes ->> one END, '')
            FOR one IN $labels::VARCHAR[]] AS labels,
        time // $tick AS tick, sum(CASE
            WHEN delta OR value < before THEN value
            WHEN before IS NULL THEN CASE WHEN $from_zero THEN value ELSE 0 END
            ELSE value - before END) AS value
    FROM grown LEFT JOIN processes USING (process) WHERE time > $since * $tick GROUP BY ALL ORDER BY tick
"""
HOST: Final = "host.name"


class Line:
    """A value over time; `stale`: ticks after which it is gone, None if it stays."""

    def __init__(self, ticks: Sequence[int], values: Sequence[float], stale: int | None) -> None:
        self._ticks, self._values, self._stale = ticks, values, stale

    def at(self, tick: int) -> float | None:
        """The newest value until then."""
        place = bisect_right(self._ticks, tick) - 1
        if place < 0 or (self._stale is not None and tick - self._ticks[place] > self._stale):
            return None
        return self._values[place]

    def over(self, first: int, last: int) -> list[float]:
        """Its values at the ticks after `first`, until `last`."""
        return [value for tick in range(first + 1, last + 1) if (value := self.at(tick)) is not None]


class Evidence:
    """Of one run until `at`, in ns; what was read once is kept. `now`: of the clock, `ended`: it told of its end."""

    def __init__(self, cursor: Cursor, at: int, *, now: int | None = None, ended: bool = False) -> None:
        self.at, self.ended, self.now = at, ended, at if now is None else now
        self.tick = at // TICK
        self._cursor = cursor
        self._kept: dict[tuple[Any, ...], Any] = {}

    def scalar(self, key: str) -> Line:
        """What verl logged under a key."""
        return self._once(("scalar", key), lambda: self._read_scalar(key))

    def gauge(self, metric: str, *labels: str) -> Mapping[Labels, Line]:
        """The greatest value by some attributes; `HOST` is one, too."""
        return self._once(("gauge", metric, labels), lambda: self._read_gauge(metric, labels))

    def increase(self, metric: str, tick: int, back: int, *labels: str, from_zero: bool = True) -> Found:
        """How much a counter grew in the `back` ticks until then, by some attributes.

        `from_zero`: what a series has at its first point came about in the run.
        """
        grown = self._once(
            ("counter", metric, labels, from_zero), lambda: self._read_counter(metric, labels, from_zero)
        )
        found = {key: (each.at(tick) or 0.0) - (each.at(tick - back) or 0.0) for key, each in grown.items()}
        return {key: value for key, value in found.items() if value}

    def counts(self, metric: str) -> Merged:
        """What a histogram counted, by tick."""
        return self._once(("histogram", metric), lambda: self._read_histogram(metric))

    def _once(self, key: tuple[Any, ...], read: Callable[[], T]) -> T:
        if key not in self._kept:
            self._kept[key] = read()
        kept: T = self._kept[key]
        return kept

    def _read_scalar(self, key: str) -> Line:
        asked = {"key": key, "tick": TICK, "at": self.at, "since": self.tick - _SCALARS_BACK}
        found = rows(self._cursor, _SCALAR, asked)
        return Line([one["tick"] for one in found], [one["value"] for one in found], None)

    def _asked(self, metric: str, labels: Labels) -> dict[str, Any]:
        return {
            "metric": metric,
            "labels": [path(one) for one in labels],
            "host_path": path(HOST),
            "tick": TICK,
            "at": self.at,
            "since": self.tick - _POINTS_BACK,
        }

    def _read_gauge(self, metric: str, labels: Labels) -> dict[Labels, Line]:
        lines: dict[Labels, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
        for one in rows(self._cursor, _GAUGE, self._asked(metric, labels)):
            ticks, values = lines[tuple(one["labels"])]
            ticks.append(one["tick"])
            values.append(one["value"])
        return {key: Line(ticks, values, STALE) for key, (ticks, values) in lines.items()}

    def _read_counter(self, metric: str, labels: Labels, from_zero: bool) -> dict[Labels, Line]:
        """How much each grew since the evidence begins."""
        lines: dict[Labels, tuple[list[int], list[float]]] = defaultdict(lambda: ([], []))
        for one in rows(self._cursor, _COUNTER, {**self._asked(metric, labels), "from_zero": from_zero}):
            ticks, sums = lines[tuple(one["labels"])]
            ticks.append(one["tick"])
            sums.append(one["value"] + (sums[-1] if sums else 0.0))
        return {key: Line(ticks, sums, None) for key, (ticks, sums) in lines.items()}

    def _read_histogram(self, metric: str) -> Merged:
        # Bins are ticks, so that their numbers are those of the other answers.
        first = self.tick - _POINTS_BACK
        found = merged(self._cursor, [metric], first * TICK, self.at, TICK).get((metric,), Merged())
        return Merged(found.bounds, {first + one: counts for one, counts in found.counts.items()})
