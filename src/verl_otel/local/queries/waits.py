"""How much of the time the trainer waits in a phase, as a line of a panel."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from verl_otel import semconv
from verl_otel.local.queries.panels import Lines, Page
from verl_otel.local.queries.reading import rows

# A column that no step touches is not one in which nobody waited.
_WAITED: Final = """
    WITH found AS (
        SELECT name, greatest(start - $from, 0) AS start, least("end", $to) - $from AS "end" FROM spans
        WHERE name IN ($step, $phase) AND start < $to AND "end" > $from
    ),
    pieces AS (
        SELECT *, unnest(range(start // $width, (greatest("end", start + 1) - 1) // $width + 1)) AS place FROM found
    )
    SELECT place, coalesce(sum(least("end", (place + 1) * $width) - greatest(start, place * $width))
        FILTER (name = $phase), 0) / $width AS share
    FROM pieces GROUP BY place HAVING count(*) FILTER (name = $step) > 0
"""


@dataclass(frozen=True)
class PhaseShare:
    """Share of each column that the trainer spent in a phase."""

    phase: str
    name: str

    @property
    def metrics(self) -> Sequence[str]:
        """None: it is of spans."""
        return ()

    def lines(self, page: Page) -> Lines:
        """See `panels.Source`."""
        window = page.window
        asked = {
            "from": window.begin,
            "to": window.end,
            "width": window.width,
            "step": semconv.SPAN_STEP,
            "phase": semconv.SPAN_PHASE + self.phase,
        }
        line: list[float | None] = [None] * window.columns
        for one in rows(page.cursor, _WAITED, asked):
            line[one["place"]] = min(1.0, one["share"])
        return {self.name: line} if any(one is not None for one in line) else {}
