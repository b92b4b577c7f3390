"""Numbers as verl's objects hold them: of Python, NumPy or torch, or missing."""

from typing import Any


def integer(value: Any) -> int | None:
    """A whole number; None stays None."""
    return int(value) if value is not None else None


def number(value: Any) -> float | None:
    """A number; None stays None."""
    return float(value) if value is not None else None


def text(value: Any) -> str | None:
    """A text; None stays None."""
    return str(value) if value is not None else None
