"""Trajectories, groups, batches and tools out of a run's database."""

import pytest

from local_rows import Rows, ms
from verl_otel import semconv
from verl_otel.local.queries.batch import batch
from verl_otel.local.queries.groups import groups, signal
from verl_otel.local.queries.reading import ParameterError
from verl_otel.local.queries.tools import tools
from verl_otel.local.queries.trajectories import trajectories


@pytest.fixture
def rows():
    made = Rows()
    made.process()
    return made


def some(rows):
    rows.trajectory("u1", 0, 0, 5, 1.0, tokens=100, turns=2)
    rows.trajectory("u1", 1, 0, 9, 0.0, tokens=400, turns=4, stop="length")
    rows.trajectory("u2", 0, 1, 3, None, outcome="failed")
    rows.trajectory("u3", 0, 2, 4, 0.5, step=2, tokens=200)
    rows.trajectory("v1", 0, 2, 4, 0.5, validation=True, tokens=50)


def names(found):
    return [f"{one['uid']}-{one['session']}" for one in found["rows"]]


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, ["u1-0", "u1-1", "u2-0", "u3-0", "v1-0"]),
        ({"step": 1, "validation": False}, ["u1-0", "u1-1", "u2-0"]),
        ({"validation": True}, ["v1-0"]),
        ({"uid": "u1"}, ["u1-0", "u1-1"]),
        ({"sort": "reward", "descending": True}, ["u1-0", "u3-0", "v1-0", "u1-1", "u2-0"]),
        ({"sort": "reward"}, ["u1-1", "u3-0", "v1-0", "u1-0", "u2-0"]),
        ({"sort": "seconds", "descending": True, "limit": 2}, ["u1-1", "u1-0"]),
        ({"sort": "uid", "descending": True, "limit": 2}, ["v1-0", "u3-0"]),
        ({"limit": 2, "offset": 1}, ["u1-1", "u2-0"]),
        ({"search": "reward>0.4"}, ["u1-0", "u3-0", "v1-0"]),
        ({"search": "reward>=0.5 reward<1"}, ["u3-0", "v1-0"]),
        ({"search": "outcome:fail"}, ["u2-0"]),
        ({"search": "stop:length tokens=400"}, ["u1-1"]),
        ({"search": "U2"}, ["u2-0"]),
        ({"search": "%' OR 1=1 --"}, []),
    ],
)
def test_trajectories_are_filtered_sorted_and_searched(rows, more, wanted):
    some(rows)
    assert names(trajectories(rows.cursor(), **more)) == wanted


def test_the_total_and_the_spread_are_of_all_and_absent_is_no_zero(rows):
    some(rows)
    found = trajectories(rows.cursor(), limit=1)
    assert found["total"] == 5
    assert sum(found["distributions"]["reward"]["counts"]) == 4
    assert found["distributions"]["reward"]["bounds"][0] == 0.0
    assert found["distributions"]["reward"]["bounds"][-1] == 1.0
    assert found["distributions"]["reward"]["counts"][-1] == 1
    assert sum(found["distributions"]["turns"]["counts"]) == 2
    assert trajectories(rows.cursor(), step=99)["distributions"]["reward"] is None
    equal = trajectories(rows.cursor(), validation=True)["distributions"]["reward"]
    assert equal == {"bounds": [0.5, 0.5], "counts": [1]}


@pytest.mark.parametrize("more", [{"sort": "luck"}, {"limit": 10_000}, {"offset": -1}, {"search": "luck>1"}])
def test_what_makes_no_sense_is_refused(rows, more):
    with pytest.raises(ParameterError):
        trajectories(rows.cursor(), **more)


def test_groups_by_their_signal(rows):
    for uid, rewards in {"r": (1, 1), "w": (0, 0), "m": (0, 1), "x": (None, 1)}.items():
        for session, reward in enumerate(rewards):
            rows.trajectory(uid, session, 0, 1, reward)
    found = {one["uid"]: one for one in groups(rows.cursor(), 1)["groups"]}
    assert {uid: one["signal"] for uid, one in found.items()} == {
        "r": "all right",
        "w": "all wrong",
        "m": "mixed",
        "x": "unknown",
    }
    assert (found["m"]["rewards"], found["m"]["mean"], found["m"]["spread"]) == ([0, 1], 0.5, 1)
    assert found["x"]["rewards"] == [None, 1]
    assert found["m"]["traces"] == ["m-0", "m-1"]


def test_the_signal_of_each_step_leaves_out_validation_and_unknown(rows):
    for step, rewards in ((1, (0, 0)), (2, (0, 1)), (3, (1, 1))):
        for session, reward in enumerate(rewards):
            rows.trajectory("u", session, step, step + 1, reward, step=step)
    rows.trajectory("v", 0, 0, 1, 1.0, step=1, validation=True)
    rows.trajectory("n", 0, 0, 1, None, step=1)
    assert signal(rows.cursor()) == {
        "steps": [1, 2, 3],
        "all_wrong": [1, 0, 0],
        "mixed": [0, 1, 0],
        "all_right": [0, 0, 1],
        "filtered": [0, 0, 0],
    }


def test_a_batch_is_what_the_step_consumed_whichever_step_dispatched_it(rows):
    rows.trajectory("u1", 0, 0, 8, 1.0, step=1, oldest=0)
    rows.trajectory("u2", 0, 0, 5, 0.0, step=2, oldest=1)
    rows.trajectory("u3", 0, 0, 5, 0.0, step=2)
    rows.span(
        "verl.phase.gen", 0, 9, trace="s", step=2, phase="gen", links=[("u1-0", "x")],
        verl__rollout__consumed=["u1_0_0", "u2_0_0"], verl__rollout__consumed__count=2,
    )  # fmt: skip
    found = batch(rows.cursor(), 2)
    assert (found["total"], found["consumed"]) == (2, ms(9))
    assert [(one["uid"], one["staleness"]) for one in found["rows"]] == [("u1", 1), ("u2", 0)]


def test_of_a_batch_that_names_only_some_the_step_s_own_are_taken(rows):
    rows.trajectory("u1", 0, 0, 8, step=2)
    rows.trajectory("u2", 0, 0, 5, step=2)
    rows.trajectory("u3", 0, 0, 5, step=3)
    rows.trajectory("v", 0, 0, 5, step=2, validation=True)
    rows.span(
        "verl.phase.gen", 0, 9, trace="s", step=2, phase="gen",
        verl__rollout__consumed=["u1_0_0"], verl__rollout__consumed__count=2,
    )  # fmt: skip
    assert [one["uid"] for one in batch(rows.cursor(), 2)["rows"]] == ["u1", "u2"]
    assert [one["uid"] for one in batch(rows.cursor(), 3)["rows"]] == ["u3"]
    assert batch(rows.cursor(), 3)["consumed"] is None


def test_the_parts_of_a_trajectory_are_what_it_waited_for_and_did(rows):
    rows.trajectory("u", 0, 0, 10)
    rows.span("chat", 1, 6, trace="u-0", span="c", verl__balancer__duration=1.0)
    rows.span(
        "verl.engine.generate", 2, 6, trace="u-0", parent="c",
        verl__engine__parked__duration=0.5, verl__engine__queue__duration=0.25,
    )  # fmt: skip
    rows.span("execute_tool add", 6, 7, trace="u-0", error=True)
    rows.span("verl.reward", 8, 9, trace="u-0")
    (one,) = batch(rows.cursor(), 1)["rows"]
    assert [(part["kind"], part["start"], part["end"]) for part in one["parts"]] == [
        ("queue", ms(1), ms(2)),
        ("gate", ms(2), ms(2.5)),
        ("queue", ms(2.5), ms(2.75)),
        ("model", ms(2.75), ms(6)),
        ("tool", ms(6), ms(7)),
        ("reward", ms(8), ms(9)),
    ]
    assert [part["error"] for part in one["parts"]] == [False] * 4 + [True, False]


@pytest.mark.parametrize(
    ("sort", "first"),
    [("end", "b"), ("start", "a"), ("seconds", "b"), ("reward", "c"), ("turns", "a"), ("staleness", "c")],
)
def test_a_batch_is_sorted(rows, sort, first):
    rows.trajectory("a", 0, 0, 5, 1.0, turns=9, oldest=0)
    rows.trajectory("b", 0, 1, 9, 0.5, turns=2, oldest=0)
    rows.trajectory("c", 0, 2, 6, 0.0, turns=3, oldest=-3)
    assert batch(rows.cursor(), 1, sort)["rows"][0]["uid"] == first


def test_a_batch_is_cut_and_says_of_how_many(rows):
    for session in range(5):
        rows.trajectory("u", session, 0, session + 1)
    found = batch(rows.cursor(), 1, limit=2)
    assert (len(found["rows"]), found["total"]) == (2, 5)
    assert batch(rows.cursor(), 7)["total"] == 0
    with pytest.raises(ParameterError):
        batch(rows.cursor(), 1, "luck")


def test_tools_and_rewards_by_name_with_their_most_common_error(rows):
    for place in range(10):
        named = {"gen_ai__tool__name": "search", "verl__tool__outcome": "failed" if place < 3 else "succeeded"}
        rows.span(
            "execute_tool search", place, place + 1, trace=f"x{place}", error=place < 3,
            message="TimeoutError: slow" if place < 2 else "KeyError: q" if place == 2 else None, **named,
        )  # fmt: skip
    rows.span("execute_tool", 0, 1)
    rows.span("verl.reward", 0, 4, trace="y", verl__reward__function="score")
    found = {(one["kind"], one["name"]): one for one in tools(rows.cursor())["rows"]}
    search = found["tool", "search"]
    assert (search["calls"], search["errors"], search["p50_s"], search["max_s"]) == (10, 3, 1.0, 1.0)
    assert search["top_error"] == "TimeoutError"
    assert search["example"] in {"x0", "x1", "x2"}
    assert found["reward", "score"]["example"] == "y"
    assert found["tool", "(unnamed)"]["errors"] == 0
    assert semconv.SPAN_TOOL == "execute_tool"
