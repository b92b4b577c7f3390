"""A trace as a tree: depth, clock skew, critical path, and equal work of many ranks folded."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

CONSUMER: Final = 5
"""OTLP's number of the span kind that its producer doesn't wait for."""
FOLD_ABOVE: Final = 16
"""Ranks of one phase that are all shown."""


@dataclass
class Node:
    """A span; times in ns. `host`: None where nobody told. `folded`: spans like it that are not shown."""

    span: str
    parent: str | None
    name: str
    kind: int
    start: int
    end: int
    error: bool
    host: str | None
    rank: int | None
    row: Mapping[str, Any]
    depth: int = 0
    folded: int | None = None


class Tree:
    """Of one trace. A span whose parent is not there is a root."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {one.span: one for one in nodes}
        self._children: dict[str | None, list[Node]] = defaultdict(list)
        for one in self.nodes.values():
            known = one.parent in self.nodes and one.parent != one.span
            self._children[one.parent if known else None].append(one)

    @property
    def roots(self) -> Sequence[Node]:
        """The earliest first."""
        return sorted(self._children[None], key=lambda one: one.start)

    def children(self, node: Node) -> Sequence[Node]:
        """Of a span, the earliest first."""
        return sorted(self._children[node.span], key=lambda one: (one.start, -one.end))

    def walk(self) -> Iterator[Node]:
        """Each span after its parent, with its depth; a circle of parents is left out."""
        waiting = list(reversed(self.roots))
        while waiting:
            node = waiting.pop()
            yield node
            for child in reversed(self.children(node)):
                child.depth = node.depth + 1
                waiting.append(child)


def correct_skew(tree: Tree) -> dict[str, int]:
    """Move what another host's clock put outside its parent into the middle of it, with all below that is of that host.

    Returns the ns that each moved span was moved by. A span that is longer than its parent begins with it.
    """
    moved: dict[str, int] = {}
    for node in tree.walk():
        for child in tree.children(node):
            by = moved.get(node.span, 0) if child.host == node.host else _outside(node, child)
            if by:
                child.start, child.end = child.start + by, child.end + by
                moved[child.span] = by
    return moved


def _outside(parent: Node, child: Node) -> int:
    """ns by which it has to move; 0 if it fits, or if nobody told of the hosts."""
    if parent.host is None or child.host is None or child.kind == CONSUMER:
        return 0
    if parent.start <= child.start and child.end <= parent.end:
        return 0
    spare = (parent.end - parent.start) - (child.end - child.start)
    return parent.start + max(0, spare) // 2 - child.start


def critical_path(tree: Tree) -> list[str]:
    """What the trace waited for: from its end back along the children that finished last.

    What hangs over its parent's end is cut there; nobody waits for a consumer.
    """
    if not tree.nodes:
        return []
    found = []
    waiting: list[tuple[Node, int | None]] = [(max(tree.roots, key=lambda one: one.end - one.start), None)]
    while waiting:
        node, until = waiting.pop()
        found.append(node.span)
        reached = node.end if until is None else min(node.end, until)
        blocking = [one for one in tree.children(node) if one.kind != CONSUMER and one.start < reached]
        for child in sorted(blocking, key=lambda one: (min(one.end, reached), one.start), reverse=True):
            if child.start < reached and min(child.end, node.end) <= reached:
                waiting.append((child, min(child.end, reached)))
                reached = child.start
    return found


def fold(tree: Tree, *, above: int = FOLD_ABOVE) -> list[Node]:
    """The spans in the order of a waterfall; of many ranks' equal work the fastest, the median and the slowest.

    The median stands for those that are left out, with what is below them. Errors are always shown.
    """
    hidden: set[str] = set()
    for node in tree.nodes.values():
        for group in _ranks(tree.children(node)):
            if len(group) > above:
                hidden |= _folded(group)
    shown = []
    for node in tree.walk():
        if node.parent in hidden:
            hidden.add(node.span)
        if node.span not in hidden:
            shown.append(node)
    return shown


def _ranks(children: Sequence[Node]) -> list[list[Node]]:
    groups: dict[str, list[Node]] = defaultdict(list)
    for one in children:
        if one.rank is not None:
            groups[one.name].append(one)
    return list(groups.values())


def _folded(group: list[Node]) -> set[str]:
    by_length = sorted(group, key=lambda one: one.end - one.start)
    middle = by_length[len(group) // 2]
    kept = {by_length[0].span, middle.span, by_length[-1].span} | {one.span for one in group if one.error}
    left_out = {one.span for one in group} - kept
    middle.folded = len(left_out)
    return left_out
