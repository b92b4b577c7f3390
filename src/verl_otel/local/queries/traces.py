"""What bounds this step, or this trajectory: its waterfall, and what is linked with it."""

from typing import Any, Final

from verl_otel.local.queries.reading import MILLISECOND, SECOND, Cursor, NotThereError, Row, decoded, rows
from verl_otel.local.queries.span_tree import Node, Tree, correct_skew, critical_path, fold

MOST: Final = 20_000
"""Spans of a trace that are read; the longest ones and the roots first."""
MOST_LINKED: Final = 256
MOST_TEXT: Final = 16_384
"""Characters of an attribute."""

_SIZE: Final = "SELECT count(*) AS total FROM spans WHERE trace = $trace"
_SPANS: Final = """
    SELECT span, parent, name, kind, start, "end", error, message, spans.role, spans.rank, host, pid, instance,
        spans.attributes, events, links
    FROM spans LEFT JOIN processes USING (process) WHERE trace = $trace
    ORDER BY (parent IS NULL) DESC, "end" - start DESC LIMIT $most
"""
_LINKED: Final = """
    SELECT trace, span, name FROM spans
    WHERE list_contains($spans, span) AND list_contains($traces, trace) LIMIT $most
"""
_LINKING: Final = """
    SELECT trace, span, name FROM spans
    WHERE links IS NOT NULL AND trace <> $trace AND contains(links::VARCHAR, $trace)
    ORDER BY start LIMIT $most
"""


def trace(cursor: Cursor, wanted: str, *, skew: bool = True, folded: bool = True) -> dict[str, Any]:
    """A trace by its id. `skew`: correct clocks where they can't be right. `folded`: many ranks' equal work.

    Raises `NotThereError`.
    """
    found = rows(cursor, _SPANS, {"trace": wanted, "most": MOST})
    if not found:
        raise NotThereError(f"there is no trace {wanted!r} in this run: it may not have been sampled, or not arrived")
    total = rows(cursor, _SIZE, {"trace": wanted})[0]["total"]
    tree = Tree(_node(one) for one in found)
    moved = correct_skew(tree) if skew else {}
    critical = critical_path(tree)
    ordered = list(tree.walk())  # gives each its depth
    shown = fold(tree) if folded else ordered
    main = max(tree.roots or ordered, key=lambda one: one.end - one.start)
    return {
        "trace": wanted,
        "name": main.name,
        "start": min(one.start for one in tree.nodes.values()) / MILLISECOND,
        "end": max(one.end for one in tree.nodes.values()) / MILLISECOND,
        "total": total,
        "spans": [_answer(one) for one in shown],
        "critical": [one for one in critical if one in {node.span for node in shown}],
        "skewed": [{"span": span, "by_s": by / SECOND} for span, by in moved.items()],
        "truncated": total > len(found),
        "linked": _linked(cursor, wanted, found),
    }


def _node(one: Row) -> Node:
    plain = ("span", "parent", "name", "kind", "start", "end", "error", "host", "rank")
    return Node(**{name: one[name] for name in plain}, row=one)


def _answer(node: Node) -> Row:
    one = node.row
    return {
        "span": node.span,
        "parent": node.parent,
        "name": node.name,
        "start": node.start / MILLISECOND,
        "end": node.end / MILLISECOND,
        "error": node.error,
        "message": one["message"],
        "role": one["role"],
        "rank": node.rank,
        "host": node.host,
        "process": f"{node.host or 'host not told'}:{one['pid']}" if one["pid"] else one["instance"] or "",
        "depth": node.depth,
        "folded": node.folded,
        "attributes": {key: _cut(value) for key, value in decoded(one["attributes"]).items()},
        "events": [_event(event) for event in decoded(one["events"]) or []],
    }


def _event(event: Row) -> Row:
    attributes = {key: _cut(value) for key, value in (event.get("attributes") or {}).items()}
    return {"time": event["time"] / MILLISECOND, "name": event["name"], "attributes": attributes}


def _cut(value: Any) -> Any:
    return value[:MOST_TEXT] if isinstance(value, str | list) else value


def _linked(cursor: Cursor, wanted: str, found: list[Row]) -> list[Row]:
    """Spans elsewhere that spans of this trace name, whether they are there or not; then those that name this one."""
    links = [link for one in found for link in decoded(one["links"]) or [] if link["trace"] != wanted][:MOST_LINKED]
    asked = {"spans": [one["span"] for one in links], "traces": [one["trace"] for one in links], "most": MOST_LINKED}
    names = {(one["trace"], one["span"]): one["name"] for one in rows(cursor, _LINKED, asked)} if links else {}
    to = {
        (one["trace"], one["span"]): {
            "trace": one["trace"],
            "span": one["span"],
            "name": names.get((one["trace"], one["span"]), ""),
            "direction": "to",
        }
        for one in links
    }
    linking = rows(cursor, _LINKING, {"trace": wanted, "most": MOST_LINKED})
    return [*to.values(), *({**one, "direction": "from"} for one in linking)]
