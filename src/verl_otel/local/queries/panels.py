"""Panels of lines by time: small tables of what to draw, read from points, counters and histograms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from verl_otel.local.queries.evidence import HOST
from verl_otel.local.queries.histograms import Merged, merged, quantile
from verl_otel.local.queries.reading import Cursor, Row, finite, path, rows
from verl_otel.local.queries.windows import Window

MOST_LINES: Final = 12
"""Of one kind; of more the least, the median, the most and the worst few are told."""
WORST: Final = 3

Lines = dict[str, list[float | None]]

# What every panel of a page needs of its points, read once: each series in each column, and all before as column -1.
_COLUMNS: Final = """
    CREATE OR REPLACE TEMP TABLE panel_columns AS
    SELECT series, CASE WHEN time < $from THEN -1 ELSE (time - $from) // $width END AS place, max(value) AS most,
        min(value) AS least, avg(value) AS mean, sum(value) AS added, arg_min(value, time) AS first,
        arg_max(value, time) AS last
    FROM points WHERE series IN (SELECT series FROM series WHERE list_contains($metrics, metric))
        AND time < $to AND isfinite(value)
    GROUP BY series, place
"""
# Both make the same table: what each label set has in each column. Series of one label set are put together.
_GAUGE: Final = """
    CREATE OR REPLACE TEMP TABLE panel_values AS
    WITH ours AS (
        SELECT series, [coalesce(CASE one WHEN $host THEN host ELSE series.attributes ->> one END, '')
            FOR one IN $labels::VARCHAR[]] AS labels
        FROM series LEFT JOIN processes USING (process)
        WHERE metric = $metric AND list_bool_and([true] || [coalesce(series.attributes ->> one.path, '')
            = one.value FOR one IN $where::STRUCT(path VARCHAR, value VARCHAR)[]])
    ),
    each AS (
        SELECT labels, place, CASE $take WHEN 'max' THEN most WHEN 'min' THEN least ELSE mean END AS value
        FROM panel_columns JOIN ours USING (series) WHERE place >= 0
    )
    SELECT labels, place,
        CASE $join WHEN 'sum' THEN sum(value) WHEN 'avg' THEN avg(value) ELSE max(value) END AS value
    FROM each GROUP BY ALL
"""
_COUNTER: Final = """
    CREATE OR REPLACE TEMP TABLE panel_values AS
    WITH ours AS (
        SELECT series, delta, [coalesce(CASE one WHEN $host THEN host ELSE series.attributes ->> one END, '')
            FOR one IN $labels::VARCHAR[]] AS labels
        FROM series LEFT JOIN processes USING (process)
        WHERE metric = $metric AND list_bool_and([true] || [coalesce(series.attributes ->> one.path, '')
            = one.value FOR one IN $where::STRUCT(path VARCHAR, value VARCHAR)[]])
    ),
    grown AS (
        SELECT *, lag(last) OVER (PARTITION BY series ORDER BY place) AS before
        FROM panel_columns JOIN ours USING (series)
    )
    SELECT labels, place, sum(CASE WHEN delta THEN added
        -- It began anew between two columns, or within this one after it had reached its most.
        ELSE CASE WHEN first < before THEN 0 ELSE -coalesce(before, first) END
            + CASE WHEN last < most THEN most + last ELSE last END END) / $per AS value
    FROM grown WHERE place >= 0 AND (delta OR before IS NOT NULL OR last > first) GROUP BY ALL
"""
_FEW: Final = "SELECT labels, place, value FROM panel_values ORDER BY labels, place"
_MANY: Final = """
    WITH worst AS (
        SELECT labels FROM panel_values GROUP BY labels
        ORDER BY CASE WHEN $low_is_bad THEN avg(value) ELSE -avg(value) END, labels LIMIT $worst
    )
    SELECT ['most'] AS labels, place, max(value) AS value FROM panel_values GROUP BY place
    UNION ALL SELECT ['median'], place, median(value) FROM panel_values GROUP BY place
    UNION ALL SELECT ['least'], place, min(value) FROM panel_values GROUP BY place
    UNION ALL SELECT labels, place, value FROM panel_values WHERE labels IN (FROM worst)
"""
_SETS: Final = "SELECT count(DISTINCT labels) AS sets FROM panel_values"


class Page:
    """What the panels of one request share: the cursor, the columns, and what was read once for all of them."""

    def __init__(self, cursor: Cursor, window: Window, metrics: Sequence[str]) -> None:
        """`metrics`: those whose points or histograms are drawn."""
        self.cursor, self.window = cursor, window
        place = {"metrics": list(metrics), "from": window.begin, "to": window.end, "width": window.width}
        cursor.execute(_COLUMNS, place)
        self._histograms = self.merged(metrics)

    def merged(self, metrics: Sequence[str], labels: Sequence[str] = ()) -> dict[tuple[str, ...], Merged]:
        """Histograms by metric and attributes."""
        cut = self.window
        return merged(self.cursor, metrics, cut.begin, cut.end - 1, cut.width, labels)

    def histogram(self, metric: str) -> Merged:
        """All its series together."""
        return self._histograms.get((metric,), Merged())


class Source(Protocol):
    """What a panel draws."""

    @property
    def metrics(self) -> Sequence[str]:
        """Those that it draws."""

    def lines(self, page: Page) -> Lines:
        """By name, a value for each column; None where nobody told."""


@dataclass(frozen=True)
class Gauge:
    """`labels`: attributes that make a line.

    `take`: max, min or avg of a series in a column; `join`: max, sum or avg of a line's series.
    """

    metric: str
    labels: tuple[str, ...] = ()
    name: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    take: str = "max"
    join: str = "max"
    low_is_bad: bool = False

    @property
    def metrics(self) -> Sequence[str]:
        """See `Source`."""
        return (self.metric,)

    def lines(self, page: Page) -> Lines:
        """See `Source`."""
        page.cursor.execute(_GAUGE, {**_asked(self), "take": self.take, "join": self.join})
        return _named(page, self.name, self.low_is_bad)


@dataclass(frozen=True)
class Counter:
    """What a counter grew by: a second, or in all of a column where `per_second` is False."""

    metric: str
    labels: tuple[str, ...] = ()
    name: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    per_second: bool = True
    low_is_bad: bool = False

    @property
    def metrics(self) -> Sequence[str]:
        """See `Source`."""
        return (self.metric,)

    def lines(self, page: Page) -> Lines:
        """See `Source`."""
        page.cursor.execute(_COUNTER, {**_asked(self), "per": page.window.seconds if self.per_second else 1.0})
        return _named(page, self.name, self.low_is_bad)


@dataclass(frozen=True)
class Share:
    """How much one grows, or is, for another; None where the other is 0."""

    part: Gauge | Counter
    whole: Gauge | Counter

    @property
    def metrics(self) -> Sequence[str]:
        """See `Source`."""
        return (self.part.metric, self.whole.metric)

    def lines(self, page: Page) -> Lines:
        """See `Source`."""
        wholes = self.whole.lines(page)
        parts = self.part.lines(page)
        return {
            name: [a / b if a is not None and b else None for a, b in zip(part, wholes[name], strict=True)]
            for name, part in parts.items()
            if name in wholes
        }


@dataclass(frozen=True)
class Quantiles:
    """Of a histogram, of all its series together; or the greatest of them, by one attribute."""

    metric: str
    shares: tuple[float, ...] = (0.5, 0.95)
    label: str | None = None
    name: str = ""

    @property
    def metrics(self) -> Sequence[str]:
        """See `Source`."""
        return (self.metric,)

    def lines(self, page: Page) -> Lines:
        """See `Source`."""
        if self.label is None:
            found = page.histogram(self.metric)
            return {
                _title(self.name, (f"{share:.0%}",)): _quantiles(found, share, page.window)
                for share in self.shares
                if found.counts
            }
        share = self.shares[-1]
        by_label = sorted(page.merged([self.metric], [self.label]).items())[:MOST_LINES]
        return {
            _title(self.name, (f"{share:.0%}", key[1])): _quantiles(one, share, page.window) for key, one in by_label
        }


def _quantiles(each: Merged, share: float, window: Window) -> list[float | None]:
    return [quantile(each.bounds, each.counts.get(column, ()), share) for column in range(window.columns)]


def _asked(one: Gauge | Counter) -> dict[str, Any]:
    return {
        "metric": one.metric,
        "labels": [path(label) for label in one.labels],
        "host": path(HOST),
        "where": [{"path": path(name), "value": value} for name, value in one.where.items()],
    }


def _named(page: Page, name: str, low_is_bad: bool) -> Lines:
    sets = rows(page.cursor, _SETS)[0]["sets"]
    many = {"low_is_bad": low_is_bad, "worst": WORST}
    found = rows(page.cursor, _MANY, many) if sets > MOST_LINES else rows(page.cursor, _FEW)
    lines: Lines = {}
    for one in found:
        line = lines.setdefault(_title(name, one["labels"]), [None] * page.window.columns)
        line[one["place"]] = finite(one["value"])
    return lines


def _title(name: str, labels: Iterable[str]) -> str:
    return " ".join(part for part in (name, *labels) if part)


@dataclass(frozen=True)
class Panel:
    """`title` asks, `good` says what is well, `why_empty` what a run lacks that has none of it."""

    id: str
    title: str
    good: str
    unit: str
    sources: tuple[Source, ...]
    why_empty: str
    threshold: float | None = None


def drawn(cursor: Cursor, panels: Sequence[Panel], window: Window) -> list[Row]:
    """The panels with their lines."""
    metrics = {metric for panel in panels for source in panel.sources for metric in source.metrics}
    page = Page(cursor, window, sorted(metrics))
    return [_draw(page, one) for one in panels]


def _draw(page: Page, panel: Panel) -> Row:
    lines: Lines = {}
    for source in panel.sources:
        lines |= source.lines(page)
    return {
        "id": panel.id,
        "title": panel.title,
        "good": f"Good: {panel.good}",
        "unit": panel.unit,
        "x": page.window.x if lines else [],
        "lines": [{"name": name or "all", "ys": ys} for name, ys in lines.items()],
        "threshold": panel.threshold,
        "why_empty": None if lines else panel.why_empty,
    }


def table(title: str, columns: Sequence[str], found: Iterable[Sequence[str | float | None]]) -> Row:
    """Rows beside panels."""
    return {"title": title, "columns": list(columns), "rows": [list(one) for one in found]}
