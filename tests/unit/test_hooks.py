"""The user's hooks and the options of `instrument()`."""

import inspect
import os
import sys
from dataclasses import fields

import pytest

import verl_otel
from verl_otel import runtime, settings
from verl_otel.guard import failures
from verl_otel.instrumentors.metric_keys import describe
from verl_otel.settings import Settings
from verl_otel.telemetry import hooks, scalars, workers
from verl_otel.telemetry.workers import WorkerCall


def test_a_span_hook_gets_each_span_as_it_starts_and_may_set_attributes(recorded):
    hooks.give(span=lambda span, name: span.set_attribute("mine", name))
    workers.start(WorkerCall("actor", 0, "update_actor")).stop()
    assert recorded.spans["verl.worker.update_actor"].attributes["mine"] == "verl.worker.update_actor"


def test_a_scalar_hook_adds_and_sees_plain_floats(recorded):
    seen = []

    def ratio(values, step):
        seen.append((dict(values), step))
        return {"mine/ratio": values["a"] / values["b"], "mine/text": "no number"}

    hooks.give(scalar=ratio)
    scalars.log({"a": 1, "b": 4, "c": "text"}, 7, describe)
    (snapshot,) = recorded.snapshots()
    assert snapshot["verl.mine.ratio"][0].value == 0.25
    assert "verl.mine.text" not in snapshot
    assert seen == [({"a": 1.0, "b": 4.0}, 7)]


def test_a_hook_that_raises_costs_itself_alone(recorded):
    def broken(*_):
        raise ValueError("theirs")

    hooks.give(broken, broken)
    workers.start(WorkerCall("actor", 0, "update_actor")).stop()
    scalars.log({"a": 1}, 1, describe)
    assert recorded.names == ["verl.worker.update_actor"]
    assert recorded.snapshots()[0]["verl.a"][0].value == 1
    assert {"span hook", "scalar hook"} <= failures.counts().keys()


@pytest.fixture
def named(tmp_path, monkeypatch):
    (tmp_path / "their_hooks.py").write_text("def on_span(span, name):\n    span.set_attribute('named', True)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("VERL_OTEL_SPAN_HOOK", "their_hooks:on_span")


def test_a_hook_named_in_a_variable_is_imported(named, recorded):
    workers.start(WorkerCall("actor", 0, "update_actor")).stop()
    assert recorded.spans["verl.worker.update_actor"].attributes["named"] is True
    sys.modules.pop("their_hooks")


@pytest.mark.parametrize("name", ["VERL_OTEL_SPAN_HOOK", "VERL_OTEL_SCALAR_HOOK"])
def test_a_hook_without_a_module_is_named_with_its_form(name, caplog):
    Settings.read({name: "on_span"})
    assert "module:function" in caplog.text


def test_every_setting_is_an_option_but_the_internal_ones():
    options = set(inspect.signature(verl_otel.instrument).parameters)
    assert options == {one.name for one in fields(Settings)} - {"enabled", "role", "attempt"}


@pytest.fixture
def environment(monkeypatch):
    """What options set is put back."""
    for one in fields(Settings):
        monkeypatch.setenv("VERL_OTEL_" + one.name.upper(), "")
        monkeypatch.delenv("VERL_OTEL_" + one.name.upper())


def test_options_are_variables_for_this_process_and_its_workers(environment):
    settings.export({"queue_mib": 7, "logs": True, "stuck_after": 1.5, "run_id": None})
    assert Settings.read() == Settings(queue_mib=7, logs=True, stuck_after=1.5)
    assert os.environ["VERL_OTEL_LOGS"] == "true"


def test_an_option_that_its_variable_would_not_take_is_the_callers_mistake(environment):
    with pytest.raises(ValueError, match="queue_mib=0: use a whole number"):
        verl_otel.instrument(queue_mib=0)
    assert "VERL_OTEL_QUEUE_MIB" not in os.environ


def test_ids_are_never_zero_nor_repeated_and_a_fork_draws_its_own():
    tracer = runtime.current().tracer
    read, write = os.pipe()
    tracer.start_span("fills the pool")
    if os.fork() == 0:
        os.write(write, f"{tracer.start_span('child').get_span_context().span_id:016x}".encode())
        os._exit(0)
    os.wait()
    found = [tracer.start_span("parent").get_span_context() for _ in range(2000)]
    ids = {one.span_id for one in found} | {one.trace_id for one in found}
    assert len(ids) == 4000
    assert 0 not in ids
    assert int(os.read(read, 16), 16) not in ids
