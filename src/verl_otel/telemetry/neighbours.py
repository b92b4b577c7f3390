"""Word to whoever looks after this node: it may be another process of the run, or nobody."""

from collections.abc import Callable, Mapping
from typing import Any

from verl_otel.guard import guard

Tell = Callable[[str, Mapping[str, Any]], Any]
_listeners: list[Tell] = []


def listen(tell: Tell) -> None:
    """From now on `tell(kind, message)` takes what is told."""
    _listeners.append(tell)


def tell(kind: str, message: Mapping[str, Any]) -> None:
    """Tell, without waiting; what can't be told now is dropped. `message` must be JSON."""
    for one in _listeners:
        with guard("telling the node"):
            one(kind, message)
