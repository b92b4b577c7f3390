"""A place in the OpenTelemetry context for one object of a kind, which the code below finds there."""

from typing import Generic, TypeVar

from opentelemetry import context
from opentelemetry.context import Context

T = TypeVar("T")


class Slot(Generic[T]):
    """`kind`: class of the object."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._key = context.create_key(f"verl-otel-{kind.__name__}")

    def holding(self, one: T) -> Context:
        """The current context, with that object."""
        return context.set_value(self._key, one)

    def current(self) -> T | None:
        """The object that the code at hand belongs to; else None."""
        found = context.get_value(self._key)
        return found if isinstance(found, self._kind) else None
