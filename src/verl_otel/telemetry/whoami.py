"""What this process is in the run: the first of its roles that is known, with rank or replica."""

from typing import Any

from verl_otel import runtime, semconv

_known: dict[str, Any] = {}


def is_(role: str, *, rank: int | None = None, replica: int | None = None) -> None:
    """This process is that; the first to be said stays."""
    if not _known:
        found = {semconv.ROLE: role, semconv.RANK: rank, semconv.REPLICA: replica}
        _known.update({name: value for name, value in found.items() if value is not None})


def labels() -> dict[str, Any]:
    """Role, and rank or replica; the driver is one of its own."""
    if not _known and (current := runtime.started()) is not None and current.settings.role == "driver":
        return {semconv.ROLE: "driver"}
    return dict(_known)


def reset() -> None:
    """Forget it, between tests."""
    _known.clear()
