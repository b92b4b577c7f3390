"""The trace over HTTP, by W3C's trace context, where a request doesn't go through Ray."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from verl_otel.guard import guard

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

_PROPAGATOR = TraceContextTextMapPropagator()


def headers(span: Span) -> dict[str, str]:
    """The headers that make `span` the parent of what the receiver does."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span, Context()))
    return carrier


class CarriedContext:
    """ASGI middleware: the trace that a request's headers name is current while the request is served."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request, or whatever else ASGI has."""
        token = None
        if scope.get("type") == "http":
            with guard("a trace over HTTP"):
                found = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
                # Without one, too: a server's tasks inherit the context that it was started in.
                token = context.attach(_PROPAGATOR.extract(found, Context()))
        try:
            await self._app(scope, receive, send)
        finally:
            if token is not None:
                with guard("leaving a trace over HTTP"):
                    context.detach(token)
