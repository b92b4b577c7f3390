"""The scope: what step and phase the code at hand works for, and how that travels."""

from verl_otel.telemetry import scope, steps


def test_span_and_scope_travel_as_bytes(recorded):
    from opentelemetry import context, trace

    assert scope.inject() is None  # no span, nothing to carry
    steps.trainer_started(lambda: 9)
    phase = steps.phase("testing", validation=True)
    here = trace.get_current_span().get_span_context()
    carrier = scope.inject()
    assert isinstance(carrier, bytes)  # Ray sends those unpickled
    root = scope.root().span_id
    token = context.attach(scope.extract(carrier))
    there = trace.get_current_span().get_span_context()
    assert (there.trace_id, there.span_id, there.trace_flags) == (here.trace_id, here.span_id, here.trace_flags)
    assert there.is_remote
    assert scope.current() == scope.Scope(9, "testing", True, root)
    assert scope.root().span_id == root
    context.detach(token)
    phase.stop()


def test_a_trace_state_travels_too(recorded):
    from opentelemetry import context, trace

    state = trace.TraceState.from_header(["vendor=1"])
    theirs = trace.NonRecordingSpan(trace.SpanContext(1, 2, False, trace.TraceFlags(0), state))
    token = context.attach(trace.set_span_in_context(theirs))
    carried = trace.get_current_span(scope.extract(scope.inject())).get_span_context()
    context.detach(token)
    assert (carried.trace_id, carried.trace_flags, carried.trace_state.to_header()) == (1, 0, "vendor=1")
