"""Steps and phases: one root a step, a span a timer, and roots of their own for what lies outside."""

import pytest
from opentelemetry import context, trace
from opentelemetry.trace import StatusCode

from verl_otel import runtime
from verl_otel.telemetry import run, scope, steps
from verl_otel.telemetry.run import ProfilerPlan, RunInfo


class Trainer:
    """As a V1 trainer goes: a `step` timer with phases inside, validation after it, then the log."""

    def __init__(self):
        self.step = 1
        steps.trainer_started(lambda: self.step)

    def timer(self, name, inside=lambda: None, *, is_step=False):
        phase = steps.phase(name, is_step=is_step, validation=name == "testing")
        try:
            inside()
        except BaseException as error:
            phase.fail(error)
            raise
        finally:
            phase.stop()
            steps.phase_done(is_step=is_step)

    def train(self, gen=lambda: None):
        self.timer("step", lambda: self.timer("gen", gen), is_step=True)
        self.timer("testing")
        steps.logged(self.step)
        self.step += 1


def parent_of(span):
    return span.parent.span_id if span.parent else None


def test_a_step_is_one_trace_from_its_first_timer_to_its_log(recorded):
    Trainer().train()
    spans = recorded.spans
    assert recorded.names == ["verl.phase.gen", "verl.phase.step", "verl.phase.testing", "verl.step"]
    root = spans["verl.step"]
    assert root.parent is None
    assert root.attributes == {"verl.step": 1, "verl.lane": "trainer"}
    assert parent_of(spans["verl.phase.step"]) == root.context.span_id
    assert parent_of(spans["verl.phase.gen"]) == spans["verl.phase.step"].context.span_id
    assert parent_of(spans["verl.phase.testing"]) == root.context.span_id
    assert spans["verl.phase.gen"].attributes == {"verl.phase": "gen", "verl.step": 1, "verl.lane": "trainer"}
    assert {span.context.trace_id for span in spans.values()} == {root.context.trace_id}


def test_each_step_has_a_trace_of_its_own(recorded):
    trainer = Trainer()
    trainer.train()
    trainer.train()
    roots = [span for span in recorded.exporter.get_finished_spans() if span.name == "verl.step"]
    assert [root.attributes["verl.step"] for root in roots] == [1, 2]
    assert len({root.context.trace_id for root in roots}) == 2


def test_a_users_own_span_around_training_is_linked_not_a_parent(recorded):
    with runtime.current().tracer.start_as_current_span("theirs") as theirs:
        Trainer().train()
    root = recorded.spans["verl.step"]
    assert root.parent is None
    assert [link.context.span_id for link in root.links] == [theirs.get_span_context().span_id]


def test_the_scope_inside_a_phase_names_step_phase_and_validation(recorded):
    seen = []
    trainer = Trainer()
    trainer.timer("gen", lambda: seen.append(scope.current()))
    trainer.timer("testing", lambda: seen.append(scope.current()))
    assert [(one.step, one.phase, one.validation) for one in seen] == [(1, "gen", False), (1, "testing", True)]
    steps.logged(1)
    assert {one.root for one in seen} == {recorded.spans["verl.step"].context.span_id}
    assert scope.current() == scope.Scope()
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_failing_phase_has_the_error_and_the_step_too(recorded):
    error = RuntimeError("out of memory")

    def fail():
        raise error

    with pytest.raises(RuntimeError) as caught:
        Trainer().train(fail)
    assert caught.value is error
    steps.trainer_finished(error)
    for name in ("verl.phase.gen", "verl.phase.step", "verl.step"):
        span = recorded.spans[name]
        assert span.status.status_code is StatusCode.ERROR
        assert span.events[0].attributes["exception.message"] == "out of memory"
    assert recorded.spans["verl.step"].attributes["verl.truncated"] is True


def test_timers_outside_a_trainer_are_no_phases(recorded):
    assert steps.phase("generate_sequences") is None
    assert recorded.names == []


def test_validation_before_training_has_a_root_inside_a_step_it_has_none(recorded):
    trainer = Trainer()
    trainer.step = 0
    before = steps.Root("verl.validate", validation=True)
    here = scope.current()
    assert (here.step, here.phase, here.validation) == (0, None, True)
    before.stop()
    assert here.root == recorded.spans["verl.validate"].context.span_id
    trainer.step = 1
    trainer.timer("testing", lambda: steps.Root("verl.validate", validation=True).stop())
    steps.logged(1)
    assert recorded.names == ["verl.validate", "verl.phase.testing", "verl.step"]
    assert recorded.spans["verl.validate"].parent is None
    assert recorded.spans["verl.validate"].attributes["verl.step"] == 0


def test_an_unlogged_step_ends_where_the_next_begins(recorded):
    trainer = Trainer()
    trainer.timer("step", is_step=True)
    trainer.step = 2
    trainer.timer("step", is_step=True)
    steps.logged(2)
    roots = [span for span in recorded.exporter.get_finished_spans() if span.name == "verl.step"]
    assert [root.attributes["verl.step"] for root in roots] == [1, 2]


def test_what_is_open_at_the_end_is_ended_and_marked(recorded):
    Trainer()
    steps.phase("gen")
    steps.trainer_finished(None)
    assert recorded.names == ["verl.phase.gen", "verl.step"]
    assert all(span.attributes["verl.truncated"] for span in recorded.spans.values())


def test_durations_and_open_phases_are_metrics(recorded):
    trainer = Trainer()
    open_points = []
    trainer.timer("gen", lambda: open_points.extend(recorded.metrics()["verl.phase.open.duration"]))
    (point,) = open_points
    assert dict(point.attributes) == {"verl.phase": "gen"}
    assert point.value >= 0
    metrics = recorded.metrics()
    assert "verl.phase.open.duration" not in metrics
    (histogram,) = metrics["verl.phase.duration"]
    assert dict(histogram.attributes) == {"verl.phase": "gen"}
    assert histogram.count == 1
    assert histogram.exemplars[0].span_id == recorded.spans["verl.phase.gen"].context.span_id


def test_a_profiled_step_says_what_is_profiled(recorded):
    run.describe(RunInfo(profiler=ProfilerPlan("torch", (2,), (0, 1), "outputs/profile")), None)
    trainer = Trainer()
    trainer.train()
    trainer.train()
    roots = [span for span in recorded.exporter.get_finished_spans() if span.name == "verl.step"]
    assert "verl.profiler.tool" not in roots[0].attributes
    assert roots[1].attributes["verl.profiler.tool"] == "torch"
    assert roots[1].attributes["verl.profiler.steps"] == (2,)
    assert roots[1].attributes["verl.profiler.ranks"] == (0, 1)
    assert roots[1].attributes["verl.profiler.path"] == "outputs/profile"


def test_the_context_is_left_as_it_was(recorded):
    before = context.get_current()
    Trainer().train()
    assert context.get_current() == before


def test_a_span_that_was_cut_off_leaves_its_context_when_its_code_ends(recorded):
    Trainer()
    phase = steps.phase("gen")
    steps.trainer_finished(None)
    phase.stop()
    assert not trace.get_current_span().get_span_context().is_valid
    assert recorded.names == ["verl.phase.gen", "verl.step"]


def test_a_timer_inside_validation_before_training_belongs_to_it(recorded):
    trainer = Trainer()
    trainer.step = 0
    before = steps.Root("verl.validate", validation=True)
    trainer.timer("generate")
    before.stop()
    assert recorded.names == ["verl.phase.generate", "verl.validate"]
    assert parent_of(recorded.spans["verl.phase.generate"]) == recorded.spans["verl.validate"].context.span_id
    assert recorded.spans["verl.phase.generate"].attributes["verl.step"] == 0


def test_the_users_own_context_values_stay_inside_a_root(recorded):
    key = context.create_key("theirs")
    token = context.attach(context.set_value(key, "value"))
    root = steps.Root("verl.init")
    assert context.get_value(key) == "value"
    root.stop()
    context.detach(token)
