"""Metrics of one run: newest values, totals and growth of counters, with what each is of."""

import json
from collections.abc import Sequence
from typing import Any, Final

from verl_otel.local.queries.reading import SECOND, Cursor, Row, path, rows

STALE: Final = 300 * SECOND
"""A gauge that was not told for so long says nothing of now."""

_NEWEST: Final = """
    SELECT any_value(series.attributes) AS attributes, process, any_value(host) AS host,
        arg_max(value, time) AS value, max(time) AS time
    FROM points JOIN series USING (series) LEFT JOIN processes USING (process)
    WHERE metric = $metric AND time > $since AND time <= $at
    GROUP BY series, process ORDER BY process, series
"""

# Of each hour its first, last and greatest value say how much it grew: a counter that has fallen began anew, between
# two hours or after the greatest. What came before the time asked for is one row of each series.
_GROWTH: Final = """
    WITH ours AS (SELECT series, delta, attributes FROM series WHERE list_contains($metrics, metric)),
    hours AS (
        SELECT series, CASE WHEN time <= $since THEN -1 ELSE (time - $since) // $hour END AS place, sum(value) AS added,
            arg_min(value, time) AS first, arg_max(value, time) AS last, max(value) AS most
        FROM points WHERE series IN (SELECT series FROM ours) AND time <= $at AND NOT isnan(value)
        GROUP BY series, place
    ),
    grown AS (
        SELECT *, lag(last) OVER (PARTITION BY series ORDER BY place) AS before FROM hours JOIN ours USING (series)
    )
    SELECT [coalesce(attributes ->> one, '') FOR one IN $labels::VARCHAR[]] AS labels, sum(CASE WHEN delta THEN added
        ELSE CASE WHEN before IS NULL THEN CASE WHEN $from_zero THEN 0 ELSE -first END
                WHEN first < before THEN 0 ELSE -before END
            + CASE WHEN last < most THEN most + last ELSE last END END) AS value
    FROM grown WHERE place >= 0 GROUP BY labels
"""
_HOUR: Final = 3600 * SECOND


def newest(cursor: Cursor, metric: str, at: int, within: int = STALE) -> list[Row]:
    """The newest point of each series that was told in the time before `at`, in ns: attributes, value, time, host."""
    asked = {"metric": metric, "since": at - within, "at": at}
    return [{**one, "attributes": json.loads(one["attributes"])} for one in rows(cursor, _NEWEST, asked)]


def growth(
    cursor: Cursor,
    metrics: str | Sequence[str],
    at: int,
    within: int | None = None,
    labels: Sequence[str] = (),
    *,
    from_zero: bool = True,
) -> dict[tuple[str, ...], float]:
    """How much counters grew in the time before `at`, in ns, default since ever, by the values of some attributes.

    `from_zero`: what a series has at its first point came about in the run.
    """
    asked = {
        "metrics": [metrics] if isinstance(metrics, str) else list(metrics),
        "labels": [path(one) for one in labels],
        "since": -1 if within is None else at - within,
        "at": at,
        "from_zero": from_zero,
        "hour": _HOUR,
    }
    return {tuple(one["labels"]): one["value"] or 0.0 for one in rows(cursor, _GROWTH, asked)}


def total(cursor: Cursor, metric: str, at: int, labels: Sequence[str] = ()) -> Any:
    """What a counter has in all, or by the values of some attributes."""
    found = growth(cursor, metric, at, labels=labels)
    return found if labels else sum(found.values())
