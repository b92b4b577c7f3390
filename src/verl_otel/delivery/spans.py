"""The span processor: hands finished spans over, and does nothing else in the thread that ended them."""

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from verl_otel.delivery.handoff import Handoff


class HandoffSpanProcessor(SpanProcessor):
    """Leaves sampled spans in a `Handoff`. Flushing is the pipeline's, with one deadline for all signals."""

    def __init__(self, handoff: Handoff) -> None:
        self._handoff = handoff

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a sampled span."""
        if span.context is not None and span.context.trace_flags.sampled:
            self._handoff.put(span)
