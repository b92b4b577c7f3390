"""A real verl run, observed: everything it logged arrived, joined, once, under names that are written down."""

import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import demo as demo_program
import pytest
from observed import equal, lost, problems, snapshot_of
from rich.console import Console
from run import Run

from verl_otel import semconv

pytestmark = pytest.mark.verl


@pytest.fixture(scope="session")
def run(demo):
    return demo[2]


def test_the_demo_says_it_is_complete(demo):
    code, printed, _ = demo
    assert code == 0, printed
    assert "Complete" in printed
    assert "lost: 0" in printed
    assert re.search(r"3 .*0\.\d{3}", printed)
    assert "worker.update_actor" in printed


def test_every_key_of_every_step_is_a_point_of_its_snapshot_and_no_other_is(run, record_property):
    assert [step for step, _ in run.log] == [0, 1, 2, 3]
    snapshots, compared = snapshot_of(run.capture), 0
    for step, data in run.log:
        assert snapshots[step].keys() == data.keys()
        for key, value in data.items():
            assert equal(snapshots[step][key], key, value), (step, key, value, snapshots[step][key])
            compared += 1
    record_property("scalars compared", compared)
    print(f"{compared} scalars compared")
    assert compared > 250


def test_every_log_call_is_one_snapshot_with_one_mark(run):
    marks = [point for point in run.capture.points if point.metric == "verl.step.snapshot"]
    assert sorted(int(mark.value) for mark in marks) == [0, 1, 2, 3]


def test_nothing_is_missing_and_nothing_was_lost(run):
    assert problems(run.capture, run.log) == []
    assert lost(run.capture) == 0


def test_steps_and_what_lies_outside_them_have_roots_of_their_own(run):
    roots = Counter(span.name.split(" ")[0] for span in run.capture.spans if not span.parent)
    assert roots.pop(semconv.SPAN_REPLICA_BUSY) > 0
    # 4 validation prompts three times (before, at step 2, after the last), and 4 prompts of 4 samples a step.
    assert roots == {"verl.step": 3, "verl.init": 1, "verl.validate": 1, "invoke_agent": 3 * 4 + 3 * 4 * 4}


def test_a_step_is_one_trace_across_processes(run):
    (root,) = (one for one in run.capture.spans if one.name == "verl.step" and one.attributes["verl.step"] == 2)
    trace = [one for one in run.capture.spans if one.trace == root.trace]
    phases = {one.attributes["verl.phase"] for one in trace if one.name.startswith("verl.phase.")}
    assert phases == {"step", "gen", "old_log_prob", "adv", "update_actor", "update_weights", "testing"} | {
        "dump_rollout_generations"
    }
    workers = {one.attributes["verl.worker.method"]: one for one in trace if one.name.startswith("verl.worker.")}
    assert set(workers) == {"compute_log_prob", "update_actor", "update_weights"}
    by_id = {one.id: one for one in trace}
    for method, phase in (("compute_log_prob", "old_log_prob"), ("update_actor", "update_actor")):
        worker = workers[method]
        assert by_id[worker.parent].name == f"verl.phase.{phase}"
        assert worker.process != root.process
        assert worker.attributes["verl.phase"] == phase
        assert worker.attributes["verl.role"] == "actor_rollout"
        assert worker.attributes["verl.rank"] == 0
    assert all(type(one.attributes["verl.step"]) is int for one in trace)
    assert all("verl.rank" not in one.attributes for one in trace if one.name.startswith("verl.phase."))
    assert root.start <= min(one.start for one in trace)
    assert root.end >= max(one.end for one in trace if one.name.startswith("verl.phase."))


def test_initialisation_shows_what_the_workers_did(run):
    (root,) = (one for one in run.capture.spans if one.name == "verl.init")
    methods = {one.attributes.get("verl.worker.method") for one in run.capture.spans if one.trace == root.trace}
    assert {"init_model", "update_weights"} <= methods


def test_trajectories_link_to_what_dispatched_them_and_reach_into_the_engine(run):
    by_id = {one.id: one for one in run.capture.spans}
    linked = Counter()
    for trajectory in (one for one in run.capture.spans if one.name.startswith("invoke_agent ")):
        ((_, dispatcher),) = trajectory.links
        linked[by_id[dispatcher].name, trajectory.attributes["verl.validation"]] += 1
        inside = {one.name: one for one in run.capture.spans if one.trace == trajectory.trace}
        assert inside["verl.engine.generate"].parent == inside["chat"].id
        assert inside["chat"].parent == trajectory.id
        assert inside["verl.engine.generate"].process != trajectory.process
        assert 0 < inside["verl.engine.generate"].attributes["verl.engine.output_tokens"] <= 32
    assert linked == {("verl.validate", True): 4, ("verl.step", False): 48, ("verl.step", True): 8}


def test_every_process_reports_and_is_told_apart(run):
    capture = run.capture
    assert len(capture.processes()) >= 5
    instances = {one.resource["service.instance.id"]: one.resource["process.pid"] for one in capture.points}
    assert len(set(instances.values())) == len(instances)
    assert "same" not in instances
    resources = [one.resource for one in (*capture.spans, *capture.points, *capture.events)]
    assert {one["service.name"] for one in resources} == {"verl"}
    assert len({one["verl.run.id"] for one in resources}) == 1
    assert "wrong" not in {one["host.name"] for one in resources}
    driver = {one.resource["process.pid"] for one in capture.events if one.name == "verl.run.start"}
    in_ray = [one for one in resources if one["process.pid"] not in driver]
    assert all(one["ray.job.id"] and one["ray.node.id"] for one in in_ray)
    speakers = {
        name: {one.process for one in capture.spans if one.name.startswith(name)}
        for name in ("verl.step", "verl.worker.", "invoke_agent", "verl.engine.generate")
    }
    assert all(len(processes) == 1 for processes in speakers.values())
    assert len(set.union(*speakers.values())) == 4


def test_the_run_tells_of_its_start_configuration_and_end(run):
    events = {one.name: one for one in run.capture.events}
    assert set(events) == {"verl.run.start", "verl.run.end", "verl.rollout.mismatch"}
    start, end = events["verl.run.start"], events["verl.run.end"]
    assert start.attributes["verl.run.algorithm"] == "grpo"
    assert start.attributes["verl.run.trainer"] == "v1/sync"
    assert start.attributes["verl.run.version.verl"] == "0.9.1"
    assert json.loads(start.attributes["verl.run.config"])["data"]["train_batch_size"] == 4
    assert end.attributes["verl.run.outcome"] == "finished"
    assert start.time < end.time
    (info, *_) = (one for one in run.capture.points if one.metric == "verl.run.info")
    assert info.attributes["verl.run.project"] == "verl-otel"


def test_phases_and_workers_have_histograms(run):
    durations = {}
    for one in run.capture.points:
        if one.metric in ("verl.phase.duration", "verl.worker.duration"):
            key = one.attributes.get("verl.phase") or one.attributes["verl.worker.method"]
            durations[one.metric, key] = (one.count, one.value)
    for phase in ("gen", "update_actor", "step"):
        count, total = durations["verl.phase.duration", phase]
        assert count == 3
        logged = sum(data.get(f"timing_s/{phase}", 0) for _, data in run.log)
        assert total == pytest.approx(logged, rel=0.1)
    assert durations["verl.worker.duration", "update_weights"][0] == 4


def test_open_phases_are_seen_while_they_last(by_program):
    """By the run that is collected five times a second."""
    opened = [one for one in by_program.capture.points if one.metric == "verl.phase.open.duration"]
    assert {"gen", "init_model"} <= {
        one.attributes.get("verl.phase") or one.attributes.get("verl.worker.method") for one in opened
    }


def test_every_name_type_unit_and_attribute_of_ours_is_written_down(run):
    wrong = []
    # vLLM makes spans of its own where there is a provider; they are not ours to name.
    for span in (one for one in run.capture.spans if one.scope == semconv.SCOPE):
        if span.name not in semconv.SPAN_NAMES and not span.name.startswith(semconv.SPAN_PREFIXES):
            wrong.append(f"span {span.name}")
        wrong += check_attributes(span.attributes, span.name)
    for event in run.capture.events:
        if event.name not in semconv.EVENTS:
            wrong.append(f"event {event.name}")
        wrong += check_attributes(event.attributes, event.name)
    for point in run.capture.points:
        if point.scope != semconv.SCOPE:
            continue  # of the engine and the queue, by their own names
        wrong += check_attributes(point.attributes, point.metric)
        if semconv.METRIC_KEY in point.attributes and point.metric not in semconv.METRICS:
            continue  # a scalar of verl's, compared with verl's log elsewhere
        if point.metric not in semconv.METRICS:
            wrong.append(f"metric {point.metric}")
        elif point.unit != semconv.METRICS[point.metric].unit:
            wrong.append(f"unit {point.unit} of {point.metric}")
    assert wrong == []


def check_attributes(attributes, owner):
    wrong = []
    for name, value in attributes.items():
        prefix = next((one for one in semconv.ATTRIBUTES if one.endswith(".") and name.startswith(one)), None)
        known = semconv.ATTRIBUTES.get(name) or semconv.ATTRIBUTES.get(prefix)
        if known is None:
            wrong.append(f"attribute {name} of {owner}")
        elif type(value) is not known.kind:
            wrong.append(f"type {type(value).__name__} of {name} of {owner}")
    return wrong


def test_nothing_of_ours_shows_in_the_runs_output(run):
    assert not [line for line in run.output.splitlines() if "verl-otel" in line and "failed" in line]


def without(run, **changed):
    return dataclasses.replace(run.capture, **changed)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c: {"spans": [one for one in c.spans if one.name != "verl.step"]}, "has no parent here"),
        (lambda c: {"spans": [*c.spans, c.spans[0]]}, "span ids are repeated"),
        (lambda c: {"spans": c.spans[:-1]}, "items were lost"),
        (
            lambda c: {"points": [one for one in c.points if one.attributes.get("verl.metric.key") != "actor/lr"]},
            "lacks",
        ),
        (lambda c: {"points": [one for one in c.points if one.metric != "verl.step.snapshot"]}, "snapshots are of"),
        (lambda c: {"events": []}, "run's end"),
    ],
    ids=["orphans", "repeated ids", "a lost span", "a lost scalar", "lost snapshots", "no end"],
)
def test_what_is_missing_is_found(run, spoil, said):
    """The check that the demo and these tests stand on can fail."""
    spoiled = without(run, **spoil(run.capture))
    assert [one for one in problems(spoiled, run.log) if said in one]


def test_the_demo_exits_with_its_own_code_if_something_is_missing(run, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(
        "".join(json.dumps({"step": step, "data": data}) + "\n" for step, data in run.log)
    )
    console = Console(file=io.StringIO())
    assert demo_program.tell(console, Run(logs=tmp_path), run.capture) == 0
    assert demo_program.tell(console, Run(logs=tmp_path), without(run, events=[])) == 3
    assert "missing:" in console.file.getvalue()


def test_stopping_the_demo_leaves_nothing_running(tmp_path):
    program = [sys.executable, demo_program.__file__, "--keep", str(tmp_path)]
    started = subprocess.Popen(
        program, stdout=subprocess.PIPE, text=True, env={**os.environ, "DEMO_TEST": str(tmp_path)}
    )
    deadline = time.monotonic() + 120
    while "Started a local Ray instance" not in read(tmp_path / "output.txt") and time.monotonic() < deadline:
        time.sleep(0.5)
    started.send_signal(signal.SIGINT)
    printed, _ = started.communicate(timeout=60)
    assert started.returncode == 130
    assert "nothing is left running" in printed
    mark = f"DEMO_TEST={tmp_path}".encode()
    assert [one for one in Path("/proc").glob("[0-9]*/environ") if mark in read_bytes(one)] == []


def read(path):
    return path.read_text(errors="replace") if path.exists() else ""


def read_bytes(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
