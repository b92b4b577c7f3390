"""torch's traces of many ranks as one, on one clock; which of a folder's files belong to which capture."""

import gzip
import json
import os
import time
from pathlib import Path

import pytest

from small_run import SmallRun
from verl_otel.local import export, perfetto, profiles

NOW = time.time_ns()


def trace(path, start, *, rank=None, base=1_790_857_026_000_000_000, pid=500):
    """As torch writes it: times in microseconds after its base. `start`: ns since the epoch."""
    at = (start - base) / 1e3
    told = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": base,
        **({"distributedInfo": {"rank": rank}} if rank is not None else {}),
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": at, "args": {"name": "python"}},
            {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "ts": at, "args": {"labels": "CPU"}},
            {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "ts": at, "args": {"sort_index": pid}},
            {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": pid, "tid": pid, "ts": at + 5, "dur": 7.5},
            {"ph": "s", "id": 4, "name": "ac2g", "cat": "ac2g", "pid": pid, "tid": pid, "ts": at + 5},
            {"ph": "f", "id": 4, "name": "ac2g", "cat": "ac2g", "pid": 0, "tid": 7, "ts": at + 9, "bp": "e"},
            {"ph": "X", "name": "gemm", "cat": "kernel", "pid": 0, "tid": 7, "ts": at + 9, "dur": 2},
            {"ph": "X", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": at, "dur": 50},
        ],
    }
    text = json.dumps(told)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def merged(*paths, zero=NOW, first=1):
    said = []
    found = list(profiles.merged([profiles.described(one) for one in paths], first, zero, said.append))
    return found, said


def test_ranks_become_numbered_processes_that_say_who_they_are(tmp_path):
    one = trace(tmp_path / "actor_train_step2_rank0-of-2_pid1_2026.json.gz", NOW, rank=0)
    # The same process number on another host, and a file that is named for no rank.
    other = trace(tmp_path / "other.json", NOW, rank=1)
    found, said = merged(one, other, first=40)
    assert said == []
    titles = {event["pid"]: event["args"]["name"] for event in found if event.get("name") == "process_name"}
    assert titles == {
        40: "rank 0 actor: python CPU", 41: "rank 0 actor: 0", 42: "rank 0 actor: Spans",
        43: "rank 1: python CPU", 44: "rank 1: 0", 45: "rank 1: Spans",
    }  # fmt: skip
    assert all(isinstance(event["pid"], int) and isinstance(event["tid"], int) for event in found)
    named = {event["args"]["name"] for event in found if event.get("name") == "thread_name"}
    assert named == {"PyTorch Profiler"}


def test_clocks_of_ranks_are_one(tmp_path):
    early = trace(tmp_path / "rank0.json", NOW, base=1_790_857_026_000_000_000)
    late = trace(tmp_path / "rank1.json", NOW + 3_000_000, base=1_796_000_000_000_000_000)
    found, _ = merged(early, late, zero=NOW - 1_000_000)
    started = [event["ts"] for event in found if event.get("name") == "aten::mm"]
    assert started == pytest.approx([1005.0, 4005.0], abs=0.01)


def test_arrows_of_two_files_do_not_meet(tmp_path):
    found, _ = merged(trace(tmp_path / "rank0.json", NOW), trace(tmp_path / "rank1.json", NOW))
    ids = [event["id"] for event in found if event["ph"] in "sf"]
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_times_since_1970_need_no_base_and_others_are_left_out(tmp_path):
    absolute = trace(tmp_path / "rank0.json", NOW, base=0)
    told = json.loads(absolute.read_text())
    del told["baseTimeNanoseconds"]
    absolute.write_text(json.dumps(told))
    for event in told["traceEvents"]:
        event["ts"] = 5.0
    (tmp_path / "rank1.json").write_text(json.dumps(told))
    (tmp_path / "rank2.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [')[:-6])
    found, said = merged(absolute, tmp_path / "rank1.json", tmp_path / "rank2.json.gz")
    (start,) = (event["ts"] for event in found if event.get("name") == "aten::mm")
    assert start == pytest.approx(5.0, abs=0.5)
    assert [("rank1" in one, "clock" in one) for one in said] == [(True, True), (False, False)]
    assert "rank2.json.gz is left out: it can't be read (EOFError)" in said[1]


def captured(run, folder, rank, step, time, tool="torch"):
    attributes = {
        "verl.profiler.path": str(folder), "verl.profiler.tool": tool, "verl.rank": rank, "verl.step": step,
        "verl.role": "actor",
    }  # fmt: skip
    run.event("verl.profiler.capture", 0, attributes, at=time)


def written(path, time):
    path.write_text("{}")
    os.utime(path, ns=(time, time))
    return path


def test_files_of_several_steps_in_one_folder_are_told_apart(tmp_path):
    run, minute = SmallRun(), 60 * 10**9
    for rank in (0, 1):
        captured(run, tmp_path, rank, 2, NOW)
        captured(run, tmp_path, rank, 4, NOW + 5 * minute)
    written(tmp_path / "prof_rank-0.json.gz", NOW - 10**9)
    written(tmp_path / "prof_rank-0_part1.json.gz", NOW + 5 * minute - 10**9)
    written(tmp_path / "actor_train_step4_rank1-of-2_pid1_1.json.gz", NOW - 10**9)
    written(tmp_path / "before.json", NOW - 120 * minute)
    written(tmp_path / "step4_rank7.nsys-rep", NOW)
    found = {Path(one["path"]).name: (one["step"], one["rank"]) for one in profiles.found(run.connection)}
    assert found == {
        "prof_rank-0.json.gz": (2, 0),
        "prof_rank-0_part1.json.gz": (4, 0),
        "actor_train_step4_rank1-of-2_pid1_1.json.gz": (4, 1),
    }
    assert [one.name for one in profiles.of_step(run.connection, 2)] == ["prof_rank-0.json.gz"]
    assert len(profiles.of_step(run.connection, None)) == 3


def test_other_tools_are_listed_and_not_merged(tmp_path):
    run = SmallRun()
    captured(run, tmp_path, 0, 1, NOW, tool="npu")
    written(tmp_path / "rank0.json", NOW)
    (one,) = profiles.found(run.connection)
    assert (one["tool"], one["role"], one["mergeable"], one["bytes"]) == ("npu", "actor", False, 2)
    assert profiles.of_step(run.connection, 1) == []


def test_a_span_that_names_a_path_is_a_capture_too(tmp_path):
    run = SmallRun()
    told = json.dumps({"verl.profiler.path": str(tmp_path), "verl.step": 3})
    run.span("verl.phase.start_profile", 0, 1, attributes=told)
    run.connection.execute('UPDATE spans SET "end" = ?', [NOW])
    written(tmp_path / "rank5.json", NOW)
    (one,) = profiles.found(run.connection)
    assert (one["step"], one["rank"], one["tool"]) == (3, 5, "torch")


def test_they_stand_below_the_spans_of_the_run(tmp_path):
    run = SmallRun().fill()
    start = run.connection.execute("SELECT min(start) FROM spans").fetchone()[0]
    path = trace(tmp_path / "rank3.json", start + 10**9)
    export.timeline(run.connection, tmp_path / "out.json", [path])
    found = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    (kernel,) = (one for one in found if one.get("name") == "gemm")
    assert kernel["pid"] not in {1, 2}
    assert kernel["ts"] == pytest.approx(1e6 + 9, abs=0.5)
    assert perfetto.opened(tmp_path / "out.json", "r").read(1) == "{"
