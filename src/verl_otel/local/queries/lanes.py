"""Rows of the timeline: who they are, and in what order."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from verl_otel.local.queries.reading import SECOND, Cursor, ParameterError, Row, rows
from verl_otel.telemetry.steps import LANE as TRAINER

ORDERS: Final = ("name", "gap", "idle", "errors")

_LANES: Final = """
    SELECT lane, any_value(host) AS host, any_value(spans.role) AS role, any_value(spans.rank) AS rank,
        any_value(spans.replica) AS replica, count(*) AS spans, count(*) FILTER (error) AS errors,
        sum("end" - start) FILTER (starts_with(name, $worker)) AS worked
    FROM spans LEFT JOIN processes USING (process)
    WHERE lane IS NOT NULL AND start < $to AND "end" > $from
    GROUP BY lane
"""


@dataclass
class Lane:
    """One of them within a time. `gap_s`: worked longer than its role's median; `idle`: share of its time."""

    lane: str
    kind: str
    host: str | None
    role: str | None
    rank: int | None
    replica: int | None
    spans: int
    errors: int
    gap_s: float | None = None
    idle: float | None = None

    def answer(self) -> dict[str, Any]:
        """As the API has it."""
        return {name: value for name, value in vars(self).items() if name != "spans"}


def lanes(cursor: Cursor, begin: int, end: int, worker: str) -> list[Lane]:
    """Those with a span between two times in ns; `worker`: prefix of the spans by which ranks are compared."""
    found = rows(cursor, _LANES, {"from": begin, "to": end, "worker": worker})
    usual = _usual(found)
    return [_lane(one, usual) for one in found]


def _usual(found: Iterable[Row]) -> dict[str | None, float]:
    """ns that the ranks of each role worked, in the middle; of one rank alone there is none."""
    by_role: dict[str | None, list[int]] = defaultdict(list)
    for one in found:
        if one["worked"] is not None:
            by_role[one["role"]].append(one["worked"])
    return {role: median(worked) for role, worked in by_role.items() if len(worked) > 1}


def _lane(one: Row, usual: Mapping[str | None, float]) -> Lane:
    gap = None
    if one["worked"] is not None and one["role"] in usual:
        gap = (one["worked"] - usual[one["role"]]) / SECOND
    kept = {name: one[name] for name in ("lane", "host", "role", "rank", "replica", "spans", "errors")}
    return Lane(**kept, kind=_kind(one), gap_s=gap)


def _kind(one: Row) -> str:
    if one["lane"].split("/")[0] == TRAINER:
        return "trainer"
    if one["replica"] is not None:
        return "replica"
    return "rank" if one["rank"] is not None else "other"


def ordered(found: Iterable[Lane], order: str) -> list[Lane]:
    """The worst first, equals by name. Raises `ParameterError`."""
    if order not in ORDERS:
        raise ParameterError(f"order is {order!r}: it may be {', '.join(ORDERS)}")
    by_name = sorted(found, key=_natural)
    if order == "name":
        return by_name
    worth = {"gap": "gap_s", "idle": "idle", "errors": "errors"}[order]
    return sorted(by_name, key=lambda one: -(getattr(one, worth) or 0))


_KINDS: Final = ("trainer", "rank", "replica", "other")


def _natural(lane: Lane) -> tuple[int, list[tuple[int, str]]]:
    """The trainer first, ranks and replicas by number."""
    parts = re.findall(r"\d+|\D+", lane.lane)
    return _KINDS.index(lane.kind), [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
