"""Which run is meant by what a user typed."""

import pytest

from verl_otel.local.choice import choose, newest
from verl_otel.local.errors import LocalError


def run(name, experiment=None, status="finished", updated=0):
    return {"id": name, "experiment": experiment, "status": status, "updated": updated}


RUNS = [
    run("20261201-a1", "grpo-small"),
    run("20261201-a2", "grpo-big"),
    run("20261201-a", None),
    run("demo", "20261201"),
]


@pytest.mark.parametrize(
    ("text", "meant"),
    [("20261201-a1", "20261201-a1"), ("20261201-a", "20261201-a"), ("d", "demo"), ("grpo-b", "20261201-a2")],
)
def test_an_id_goes_before_beginnings_of_ids_before_those_of_experiments(text, meant):
    assert choose(RUNS, text)["id"] == meant


def test_what_may_be_several_is_said_with_them():
    with pytest.raises(LocalError, match="3 runs: 20261201-a1, 20261201-a2, 20261201-a"):
        choose(RUNS, "2026")
    with pytest.raises(LocalError, match="2 runs"):
        choose(RUNS, "grpo")


def test_what_is_none_is_said():
    with pytest.raises(LocalError, match="no run 'x'"):
        choose(RUNS, "x")


def test_the_newest_is_the_one_that_runs():
    found = newest([run("old", updated=9), run("now", status="running", updated=5), run("older", updated=3)])
    assert found["id"] == "now"
    assert newest([run("a", updated=1), run("b", updated=2)])["id"] == "b"
    with pytest.raises(LocalError, match="no run yet"):
        newest([])
