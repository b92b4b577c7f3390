"""Perfetto's file: numbers for processes and lanes, rows that are nested, names as metadata."""

import gzip
import json
from collections import defaultdict

import pytest

from small_run import SECOND, START, SmallRun
from verl_otel.local import export, perfetto, selection
from verl_otel.local.errors import LocalError
from verl_otel.local.perfetto import Process, Slice


def slices(*spans, lane="trainer", process=1):
    return [Slice(process, lane, name, start, end, f"{name}-id") for name, start, end in spans]


def events(found):
    return list(perfetto.events([Process(1, "trainer, host, 7", 4)], found, 0))


def check_nested(found):
    """Every end closes the newest beginning of its row, no time runs backwards, nothing stays open."""
    rows = defaultdict(list)
    for one in found:
        assert isinstance(one["pid"], int)
        assert isinstance(one["tid"], int)
        if one["ph"] in "BEbe":
            rows[(one["pid"], one["tid"], one.get("id"), one.get("cat") if one["ph"] in "be" else None)].append(one)
    assert rows
    for row in rows.values():
        open_, last = [], float("-inf")
        for one in row:
            assert one["ts"] >= last
            last = one["ts"]
            if one["ph"] in "Bb":
                open_.append(one)
            else:
                begun = open_.pop()
                assert one["ts"] >= begun["ts"]
                assert one.get("name", begun["name"]) == begun["name"]
        assert open_ == []
    return rows


def test_phases_in_turn_are_one_thread_and_nested():
    found = events(slices(("step", 0, 100), ("gen", 0, 40), ("adv", 40, 40), ("update", 40, 100)))
    (row,) = check_nested(found).values()
    assert [(one["ph"], one.get("name")) for one in row] == [
        ("B", "step"), ("B", "gen"), ("E", None), ("B", "update"), ("B", "adv"), ("E", None), ("E", None), ("E", None)
    ]  # fmt: skip


def test_what_overlaps_has_rows_of_its_own():
    found = events(slices(("a", 0, 10), ("b", 5, 15), ("c", 11, 12), ("d", 16, 20)))
    assert len(check_nested(found)) == 2
    names = [one["args"]["name"] for one in found if one.get("name") == "thread_name"]
    assert names == ["trainer", "trainer (2)"]


def test_what_runs_at_once_is_asynchronous_with_as_many_rows_as_overlap():
    spans = [(f"trajectory {number}", number, number + 10) for number in range(25)]
    rows = check_nested(events(slices(*spans, lane=None)))
    assert len(rows) == 10
    assert {one["ph"] for row in rows.values() for one in row} == {"b", "e"}


def test_a_child_stays_in_its_parents_row():
    made = [
        Slice(1, None, "first", 0, 100, "1"),
        Slice(1, None, "second", 1, 101, "2"),
        Slice(1, None, "call of second", 2, 50, "3", parent="2"),
    ]
    assert [[one.name for one in row] for row in perfetto.in_rows(made)] == [["first"], ["second", "call of second"]]


def test_names_are_metadata_and_come_first():
    found = events(slices(("a", 0, 10)))
    assert found[0] == {
        "ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "trainer, host, 7"}
    }  # fmt: skip
    assert found[1]["args"] == {"sort_index": 4}


def read(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        return json.load(file)


@pytest.mark.parametrize("name", ["run.json", "run.json.gz"])
def test_a_run_from_its_database(tmp_path, name):
    run = SmallRun().fill()
    number = export.timeline(run.connection, tmp_path / name)
    found = read(tmp_path / name)
    assert number == len(found["traceEvents"])
    assert found["otherData"]["zero_ns"] == str(START + 100 * SECOND)
    rows = check_nested(found["traceEvents"])
    begun = [one["name"] for row in rows.values() for one in row if one["ph"] in "Bb"]
    assert sorted(set(begun)) == ["adv", "chat", "gen", "invoke_agent x", "step", "update_actor"]
    assert len(begun) == 20
    titles = {one["pid"]: one["args"]["name"] for one in found["traceEvents"] if one.get("name") == "process_name"}
    assert titles == {1: "trainer, one, 10", 2: "actor 3, two, 20"}
    (failed, _) = (one for one in found["traceEvents"] if one.get("args", {}).get("error"))
    assert failed["name"] == "chat"


def test_a_step_has_its_trace_and_its_trajectories_and_no_others(tmp_path):
    run = SmallRun().fill()
    selection.narrow(run.connection, 2)
    export.timeline(run.connection, tmp_path / "step.json")
    found = read(tmp_path / "step.json")
    assert found["otherData"]["zero_ns"] == str(START + 200 * SECOND)
    begun = [one["name"] for one in found["traceEvents"] if one["ph"] in "Bb"]
    # The rank's span has no step of its own: it is in the step's trace.
    assert len(begun) == 10
    assert "update_actor" in begun


def test_a_step_that_is_not_there_is_said():
    run = SmallRun().fill()
    selection.narrow(run.connection, 77)
    with pytest.raises(LocalError, match="no spans"):
        export.timeline(run.connection, "unused")
