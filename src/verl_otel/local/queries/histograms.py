"""Histograms merged over series and time; quantiles come afterwards, as an average of quantiles means nothing."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from verl_otel.local.queries.reading import Cursor, Row, path, rows

# Delta points add; of cumulative ones the last of each bin counts, less the last before it, unless it began anew.
_GROWN: Final = """
    WITH ours AS (SELECT series, metric, delta, attributes FROM series WHERE list_contains($metrics, metric)),
    binned AS (
        SELECT series, time, CASE WHEN time < $from THEN -1 ELSE (time - $from) // $width END AS bin
        FROM histograms WHERE series IN (SELECT series FROM ours) AND time <= $to
    ),
    -- Lists are heavy: which rows are needed is found without them.
    needed AS (
        SELECT series, bin, max(time) AS time FROM binned SEMI JOIN (FROM ours WHERE NOT delta) USING (series)
        GROUP BY series, bin
        UNION ALL SELECT series, bin, time FROM binned SEMI JOIN (FROM ours WHERE delta) USING (series) WHERE bin >= 0
    ),
    grown AS (
        SELECT metric, attributes, bin, bounds, counts,
            CASE WHEN NOT delta THEN lag(counts) OVER (PARTITION BY series ORDER BY bin, time) END AS before
        FROM histograms JOIN needed USING (series, time) JOIN ours USING (series)
    ),
    buckets AS (
        SELECT [metric] || [coalesce(attributes ->> one, '') FOR one IN $labels::VARCHAR[]] AS labels, bin, bounds,
            counts,
            CASE WHEN len(before) = len(counts) AND list_sum(before) <= list_sum(counts) THEN before END AS before,
            unnest(range(1, len(counts) + 1)) AS place
        FROM grown WHERE bin >= 0
    ),
    added AS (
        SELECT labels, bin, bounds, place,
            sum(greatest(0, counts[place]::BIGINT - coalesce(before[place], 0)::BIGINT))::BIGINT AS count
        FROM buckets GROUP BY ALL
    )
    SELECT labels, bin, bounds, list(count ORDER BY place) AS counts FROM added GROUP BY ALL
"""


@dataclass
class Merged:
    """Counts of each bin; `counts[bin]` has one more than `bounds`, what lies above the last."""

    bounds: list[float] = field(default_factory=list)
    counts: dict[int, list[int]] = field(default_factory=dict)

    def within(self, bins: Iterable[int]) -> list[int]:
        """Of several bins together."""
        found = [self.counts[one] for one in bins if one in self.counts]
        return [sum(column) for column in zip(*found, strict=True)]


def merged(
    cursor: Cursor, metrics: Sequence[str], begin: int, end: int, width: int, labels: Sequence[str] = ()
) -> dict[tuple[str, ...], Merged]:
    """What was counted between two times in ns, in bins of `width` ns, by metric and the values of some attributes."""
    asked = {
        "metrics": list(metrics),
        "from": begin,
        "to": end,
        "width": width,
        "labels": [path(one) for one in labels],
    }
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for one in rows(cursor, _GROWN, asked):
        found[tuple(one["labels"])].append(one)
    return {key: _merge(each) for key, each in found.items()}


def _merge(found: Sequence[Row]) -> Merged:
    """Bounds that differ are united: a bucket's count goes to the bucket that ends where it ends."""
    bounds = sorted({bound for one in found for bound in one["bounds"]})
    result = Merged(bounds)
    for one in found:
        counts = result.counts.setdefault(one["bin"], [0] * (len(bounds) + 1))
        for place, count in enumerate(one["counts"]):
            upper = bisect_left(bounds, one["bounds"][place]) if place < len(one["bounds"]) else len(bounds)
            counts[upper] += count
    return result


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """As Prometheus estimates it: linear within a bucket, the last bound for what lies above; None of nothing."""
    total = sum(counts)
    if not total or not bounds:
        return None
    wanted = share * total
    reached = list(accumulate(counts))
    place = next(place for place, sum_ in enumerate(reached) if counts[place] and sum_ >= wanted)
    if place >= len(bounds) or math.isinf(bounds[place]):
        return bounds[min(place, len(bounds)) - 1]
    upper = bounds[place]
    lower = bounds[place - 1] if place else min(0.0, upper)
    return lower + (upper - lower) * (wanted - reached[place] + counts[place]) / counts[place]
