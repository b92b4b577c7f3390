"""How a benchmark says how far it is."""

from collections.abc import Callable

Tell = Callable[[int, int], None]
"""Told what is done, and of how much."""
