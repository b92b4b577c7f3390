"""Trajectories: a trace of its own, linked to what dispatched it, with both sides of a model call."""

from verl_otel.instrumentors.rollouts import read_generation, read_trajectory
from verl_otel.telemetry import rollouts, scope, steps
from verl_otel.telemetry.rollouts import Generation, Trajectory


def test_a_trajectory_is_a_trace_linked_to_its_dispatcher(recorded):
    steps.trainer_started(lambda: 4)
    phase = steps.phase("step", is_step=True)
    trajectory = rollouts.start_trajectory(Trajectory("tool_agent", "uid", 2, step=4))
    call = rollouts.start_model_call()
    engine = rollouts.start_engine_call("vllm", 1)
    engine.set(rollouts.engine_attributes(Generation(10, 5, "completed")))
    engine.stop()
    call.set(rollouts.client_attributes(Generation(10, 5, "completed")))
    call.stop()
    trajectory.stop()
    phase.stop()
    steps.logged(4)
    spans = recorded.spans
    root = spans["invoke_agent tool_agent"]
    assert root.parent is None
    assert root.links[0].context.span_id == spans["verl.step"].context.span_id  # the root, not the phase
    assert root.links[0].context.trace_id == spans["verl.step"].context.trace_id
    assert root.attributes["verl.sample.uid"] == "uid"
    assert root.attributes["verl.rollout.session"] == 2
    assert root.attributes["verl.step"] == 4
    assert root.attributes["verl.validation"] is False
    assert spans["chat"].parent.span_id == root.context.span_id
    assert spans["chat"].attributes["gen_ai.usage.output_tokens"] == 5
    assert spans["verl.engine.generate"].parent.span_id == spans["chat"].context.span_id
    assert spans["verl.engine.generate"].attributes["verl.engine.output_tokens"] == 5
    # Only the client's side has gen_ai usage, so that no backend counts tokens twice.
    assert not [name for name in spans["verl.engine.generate"].attributes if name.startswith("gen_ai.usage")]


def test_both_generations_of_the_agent_loop_are_read():
    v1 = read_trajectory({"step": 3, "rollout_n": 0, "validate": True}, "single", {"uid": "u", "session_id": 2})
    assert v1 == Trajectory("single", "u", 2, 3, True)
    legacy = read_trajectory({"step": 3, "rollout_n": 1, "sample_index": 5, "validate": False}, "single", {})
    assert legacy == Trajectory("single", None, 1, 3, False)


def test_an_output_without_a_reason_is_read():
    class Output:
        token_ids = (1, 2, 3)

    assert read_generation(Output()) == Generation(None, 3, None)


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
