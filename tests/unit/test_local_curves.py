"""Curves, steps and marks out of a run's database: nothing is lost by reduction, nothing absent becomes 0."""

import math
import random

import pytest

from local_rows import Rows, many_steps, ms
from verl_otel import semconv
from verl_otel.local.queries.configuration import configuration
from verl_otel.local.queries.curves import curves, keys, table
from verl_otel.local.queries.marks import marks
from verl_otel.local.queries.reading import ParameterError
from verl_otel.local.queries.steps import steps


@pytest.fixture
def rows():
    return Rows()


def test_a_reduced_curve_keeps_every_spike_and_each_column_first_and_last(rows):
    values = [(step, step, math.sin(step / 50)) for step in range(10_000)]
    values[7777] = (7777, 7777, 1000.0)
    values[3333] = (3333, 3333, -1000.0)
    rows.scalars("a/b", values)
    curve = curves(rows.cursor(), ["a/b"], width=100)["curves"][0]
    points = dict(zip(curve["xs"], curve["ys"], strict=True))
    assert curve["reduced"]
    assert curve["points"] == 10_000
    assert len(curve["xs"]) <= 400
    assert points[7777] == 1000.0
    assert points[3333] == -1000.0
    assert points[0] == values[0][2]
    assert points[9999] == values[9999][2]
    assert curve["xs"] == sorted(curve["xs"])


def test_a_column_of_m4_is_what_a_plain_loop_finds(rows):
    dice = random.Random(3)
    values = [(step, step, dice.random()) for step in range(1000)]
    rows.scalars("a", values)
    curve = curves(rows.cursor(), ["a"], width=10, begin=0, end=999)["curves"][0]
    wanted = set()
    for column in range(10):
        inside = [(step, value) for step, _, value in values if min(int(step * 10 / 999), 9) == column]
        wanted |= {inside[0], inside[-1], min(inside, key=lambda one: one[1]), max(inside, key=lambda one: one[1])}
    assert set(zip(curve["xs"], curve["ys"], strict=True)) == wanted


def test_few_points_are_all_there_and_what_is_no_number_is_a_gap_with_a_mark(rows):
    rows.scalars("a", [(1, 1, 1.0), (2, 2, math.nan), (3, 3, math.inf), (4, 4, -math.inf), (5, 5, 2.0)])
    curve = curves(rows.cursor(), ["a"])["curves"][0]
    assert curve["ys"] == [1.0, None, None, None, 2.0]
    assert curve["nonfinite"] == [[2, "NaN"], [3, "+Inf"], [4, "-Inf"]]
    assert not curve["reduced"]


def test_nan_is_no_maximum_of_a_reduced_curve(rows):
    rows.scalars("a", [(step, step, math.nan if step == 500 else 1.0) for step in range(1000)])
    curve = curves(rows.cursor(), ["a"], width=10)["curves"][0]
    assert {one for one in curve["ys"] if one is not None} == {1.0}
    assert curve["nonfinite"] == [[500, "NaN"]]


def test_a_step_that_was_made_again_counts_once_on_the_curve_and_twice_in_the_table(rows):
    rows.scalars("a", [(1, 1, 0.1), (2, 2, 0.2)])
    rows.scalars("a", [(2, 12, 0.3)], attempt=2)
    curve = curves(rows.cursor(), ["a"])["curves"][0]
    assert (curve["xs"], curve["ys"]) == ([1, 2], [0.1, 0.3])
    assert "".join(table(rows.cursor(), ["a"])).splitlines()[1:] == [
        f"1,{ms(1)},0.1",
        f"2,{ms(2)},0.2",
        f"2,{ms(12)},0.3",
    ]


def test_the_axis_may_be_time_and_its_range(rows):
    rows.scalars("a", [(step, step * 10, step) for step in range(1, 6)])
    assert curves(rows.cursor(), ["a"], "time", ms(20), ms(40))["curves"][0]["xs"] == [ms(20), ms(30), ms(40)]
    assert curves(rows.cursor(), ["a"], "elapsed")["curves"][0]["xs"] == [0, 10, 20, 30, 40]
    assert curves(rows.cursor(), ["a"], begin=2, end=3)["curves"][0]["ys"] == [2, 3]


@pytest.mark.parametrize("more", [{"axis": "tokens"}, {"width": 0}])
def test_a_curve_that_makes_no_sense_is_refused(rows, more):
    with pytest.raises(ParameterError):
        curves(rows.cursor(), ["a"], **more)


def test_a_key_that_was_never_logged_has_no_points(rows):
    assert curves(rows.cursor(), ["a"])["curves"] == [
        {"key": "a", "unit": "", "xs": [], "ys": [], "reduced": False, "points": 0, "nonfinite": []}
    ]


def test_the_table_is_empty_where_a_key_was_not_logged(rows):
    rows.scalars("a,b", [(1, 1, 0.1)])
    rows.scalars("c", [(2, 2, math.nan)])
    lines = "".join(table(rows.cursor(), ["a,b", "c"])).splitlines()
    assert lines == ['step,time,"a,b",c', f"1,{ms(1)},0.1,", f"2,{ms(2)},,NaN"]


def test_keys_are_in_families_by_their_statistic(rows):
    rows.scalars("critic/score/mean", [(1, 1, 0.5), (3, 3, math.nan)], statistic="mean", unit="1")
    rows.scalars("val-core/openai/gsm8k/acc/best@4/mean", [(1, 1, 0.5)], statistic="best@4/mean")
    rows.scalars("actor/lr", [(1, 1, 1e-6)])
    found = {one["key"]: one for one in keys(rows.cursor())["keys"]}
    score = found["critic/score/mean"]
    assert (score["family"], score["statistic"], score["unit"]) == ("critic/score", "mean", "1")
    assert (score["points"], score["nonfinite"], score["first_step"], score["last_step"]) == (2, 1, 1, 3)
    assert found["val-core/openai/gsm8k/acc/best@4/mean"]["family"] == "val-core/openai/gsm8k/acc"
    assert (found["actor/lr"]["family"], found["actor/lr"]["statistic"]) == ("actor/lr", None)


def one_step(rows, step, begin, phases, length=10.0, trace=None):
    trace = trace or f"t{step}"
    root = rows.span("verl.step", begin, begin + length, trace=trace, step=step, lane="trainer")
    for name, start, end in phases:
        rows.span(f"verl.phase.{name}", begin + start, begin + end, trace=trace, parent=root, phase=name, step=step)
    return root


def test_phases_by_step_with_the_rest_that_none_explains(rows):
    one_step(rows, 1, 0, [("gen", 0, 4), ("update_actor", 5, 8)])
    one_step(rows, 2, 10, [("gen", 0, 6)])
    found = steps(rows.cursor())
    assert found["steps"] == [1, 2]
    assert found["width"] == 1
    assert found["phases"] == {"gen": [4.0, 6.0], "update_actor": [3.0, None]}
    assert found["total"] == [10.0, 10.0]
    assert found["rest"] == [3.0, 4.0]
    assert found["start"] == [ms(0), ms(10)]
    assert found["trace"] == ["t1", "t2"]


def test_a_phase_within_another_is_not_added_and_an_overlap_is_explained_once(rows):
    root = one_step(rows, 1, 0, [])
    whole = rows.span("verl.phase.step", 0, 9, trace="t1", parent=root, phase="step", step=1)
    gen = rows.span("verl.phase.gen", 0, 5, trace="t1", parent=whole, phase="gen", step=1)
    rows.span("verl.phase.reward", 1, 2, trace="t1", parent=gen, phase="reward", step=1)
    rows.span("verl.phase.ref", 4, 7, trace="t1", parent=whole, phase="ref", step=1)
    found = steps(rows.cursor())
    assert found["phases"] == {"gen": [5.0], "ref": [3.0]}
    assert found["rest"] == [3.0]


def test_a_step_made_by_two_attempts_is_the_later_one(rows):
    one_step(rows, 1, 0, [("gen", 0, 4)], trace="a")
    one_step(rows, 1, 100, [("gen", 0, 2)], trace="b")
    found = steps(rows.cursor())
    assert (found["phases"]["gen"], found["trace"]) == ([2.0], ["b"])


def test_many_steps_are_bins_of_sums_with_the_longest_step_s_trace(rows):
    for step in range(1, 11):
        one_step(rows, step, step * 20, [("gen", 0, step)], length=10 + step / 10)
    found = steps(rows.cursor(), bins=5)
    assert (found["width"], found["steps"]) == (2, [1, 3, 5, 7, 9])
    assert found["phases"]["gen"] == [3.0, 7.0, 11.0, 15.0, 19.0]
    assert found["trace"] == ["t2", "t4", "t6", "t8", "t10"]


def test_where_no_step_was_traced_verl_s_timings_are_taken(rows):
    rows.scalars("timing_s/gen", [(1, 1, 4.0), (2, 2, 5.0)])
    rows.scalars("timing_s/adv", [(2, 2, 1.0)])
    rows.scalars("timing_s/step", [(1, 1, 6.0), (2, 2, 8.0)])
    found = steps(rows.cursor())
    assert found["phases"] == {"gen": [4.0, 5.0], "adv": [None, 1.0]}
    assert found["rest"] == [2.0, 2.0]
    assert found["trace"] == [None, None]


def test_a_range_of_a_hundred_thousand_steps_is_that_range(rows):
    many_steps(rows, 5000, keys=1)
    found = steps(rows.cursor(), 1000, 1003)
    assert found["steps"] == [1000, 1001, 1002, 1003]
    assert found["phases"]["gen"] == [1.9] * 4
    assert found["rest"] == pytest.approx([9.9 - 4 * 1.9] * 4)


def test_marks_say_what_happened_where(rows):
    rows.span("verl.phase.save_checkpoint", 10, 12, phase="save_checkpoint", step=3)
    rows.span("verl.phase.gen", 20, 21, phase="gen", step=4, error=True, message="ValueError: <b>no</b>")
    rows.scalars("actor/loss", [(5, 30, math.nan), (6, 40, math.nan)])
    rows.event(semconv.EVENT_RUN_RESUME, 50, {semconv.RUN_RESUMED_STEP: 3})
    rows.event(semconv.EVENT_STUCK, 60, {semconv.PHASE: "gen", semconv.STEP: 7})
    rows.event(semconv.EVENT_RUN_END, 70, {semconv.RUN_OUTCOME: "failed", "exception.type": "ValueError"})
    found = marks(rows.cursor())["marks"]
    assert [(one["kind"], one["step"], one["time"]) for one in found] == [
        ("checkpoint", 3, ms(12)),
        ("error", 4, ms(21)),
        ("nan", 5, ms(30)),
        ("restart", None, ms(50)),
        ("stuck", 7, ms(60)),
        ("end", None, ms(70)),
    ]
    assert found[1]["label"] == "verl.phase.gen: ValueError: <b>no</b>"
    assert found[2]["label"] == "actor/loss is no number, 2 times"
    assert found[5]["label"] == "failed: ValueError"


def test_new_weights_are_marked_only_where_they_are_rarer_than_steps(rows):
    for step in range(1, 5):
        one_step(rows, step, step * 10, [("update_weights", 0, 1)])
    assert marks(rows.cursor())["marks"] == []
    for step in range(5, 20):
        one_step(rows, step, step * 10, [])
    assert {one["kind"] for one in marks(rows.cursor())["marks"]} == {"weights"}


def test_the_configuration_is_that_of_the_newest_attempt(rows):
    for second, rate in ((1, 1e-5), (2, 1e-6)):
        told = {semconv.RUN_CONFIG: f'{{"actor": {{"lr": {rate}}}}}', semconv.RUN_VERSION + "verl": "0.9.1"}
        rows.event(semconv.EVENT_RUN_START, second, {**told, semconv.RUN_ALGORITHM: "grpo"})
    assert configuration(rows.cursor()) == {
        "config": {"actor": {"lr": 1e-6}},
        "versions": {"verl": "0.9.1"},
        "info": {"algorithm": "grpo"},
    }


def test_a_configuration_that_was_cut_is_empty(rows):
    rows.event(semconv.EVENT_RUN_START, 1, {semconv.RUN_CONFIG: '{"actor": {"lr'})
    assert configuration(rows.cursor())["config"] == {}
