"""Time cut into columns, as wide as pixels but no narrower than what is between two exports."""

from dataclasses import dataclass
from typing import Final

from verl_otel import semconv
from verl_otel.local.queries.reading import MILLISECOND, SECOND, Cursor, ParameterError, nanoseconds, row

MOST_COLUMNS: Final = 400
_USUAL: Final = 15 * SECOND
_SLACK: Final = 1.5
"""Intervals of a column: exports are not quite even, and an empty column is a gap in the line."""

_EXTENT: Final = "SELECT min(first_seen) AS first, max(last_seen) AS last FROM processes"
_INTERVAL: Final = """
    WITH each AS (
        SELECT (max(time) - min(time)) / (count(*) - 1) AS between FROM points JOIN series USING (series)
        WHERE metric = $metric GROUP BY series HAVING count(*) > 1
    )
    SELECT median(between) AS between FROM each
"""


@dataclass(frozen=True)
class Window:
    """From `begin` in ns in `columns` of `width` ns each."""

    begin: int
    width: int
    columns: int

    @property
    def end(self) -> int:
        """In ns."""
        return self.begin + self.columns * self.width

    @property
    def seconds(self) -> float:
        """Of a column."""
        return self.width / SECOND

    @property
    def x(self) -> list[float]:
        """The columns' middles, in ms."""
        return [(self.begin + (column + 0.5) * self.width) / MILLISECOND for column in range(self.columns)]


def window(cursor: Cursor, begin: float | None, end: float | None, width: int) -> Window:
    """Between two times in ms, default all there is, for `width` pixels. Raises `ParameterError`."""
    if width < 1:
        raise ParameterError(f"width is {width}: it may be 1 or more")
    whole = row(cursor, _EXTENT) or {}
    first = (whole["first"] or 0) if begin is None else nanoseconds(begin)
    last = (whole["last"] or 0) if end is None else nanoseconds(end)
    if last < first:
        raise ParameterError("the time asked for ends before it begins")
    between = (row(cursor, _INTERVAL, {"metric": semconv.TELEMETRY_QUEUE.name}) or {})["between"] or _USUAL
    length = last - first + 1
    columns = max(1, min(width, MOST_COLUMNS, int(length / (_SLACK * between))))
    return Window(first, -(-length // columns), columns)
