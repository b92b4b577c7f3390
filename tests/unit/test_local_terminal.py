"""A run on the terminal."""

import io

import pytest
from rich.console import Console

from verl_otel.local import terminal


def overview(**more):
    run = {
        "id": "r1", "project": "p", "experiment": "e", "status": "running", "step": 12, "total_steps": 100,
        "algorithm": "grpo", "model": None, "engine": "vllm", "trainer": None, "reward": None,
    }  # fmt: skip
    return {"run": run, "phases_open": [], "progress": None, "failure": None, "alerts": [], **more}


def phase(name="gen", **more):
    return {
        "name": name, "role": None, "rank": None, "open_s": 75.0, "median_s": 30.2, "p95_s": 60.0, "stuck": False,
        **more,
    }  # fmt: skip


def curve(key="critic/score/mean", ys=(0.1, 0.5, None, 0.25), unit=""):
    return {"key": key, "unit": unit, "ys": list(ys), "points": len(ys)}


PROGRESS = {
    "validation": False, "expected": 64, "pending": 1, "running": 9, "done": 54, "failed": 0, "rate": 1.0,
    "left_s": 8.0, "oldest_s": 200.0, "waits_for": "tool",
}  # fmt: skip
ALERT = {"name": "VerlNotFinite", "severity": "critical", "summary": "actor/kl is NaN", "since": 0, "runbook": ""}
FAILURE = {
    "type": "OutOfMemoryError", "message": "CUDA out of memory\nmore", "phase": "update_actor", "role": "actor",
    "rank": 3, "host": "h1", "step": 7, "time": 0, "trace": None, "span": None,
}  # fmt: skip


def shown(told, curves=()):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(terminal.picture(told, curves, "http://127.0.0.1:4318/#/overview/r1"))
    return console.export_text()


def test_the_picture_says_all_of_it():
    told = overview(phases_open=[phase(), phase("update", role="actor", rank=5, stuck=True)], progress=PROGRESS)
    text = shown(
        {**told, "alerts": [ALERT], "failure": FAILURE}, [curve(), curve("perf/throughput", (1.5,), "{token}/s")]
    )
    for one in (
        "p e  running  step 12 of 100  grpo, vllm  http://127.0.0.1:4318/#/overview/r1",
        "OutOfMemoryError: CUDA out of memory (step 7, update_actor, actor 3 h1)",
        "VerlNotFinite: actor/kl is NaN",
        "rollout: 54 of 64 done, 9 running, 8.0 s left, oldest 3 min, waits for tool",
        "gen", "trainer", "75 s", "30 s", "actor 5", "75 s stuck", "critic/score/mean", "0.25", "▁█ ▄", "1.5 token/s",
    ):  # fmt: skip
        assert one in text


def test_what_nobody_told_is_left_out():
    run = {**overview()["run"], "step": None, "total_steps": None, "project": None, "experiment": None}
    text = shown({**overview(), "run": run}, [curve(ys=())])
    assert text.strip() == "r1  running  step -  grpo, vllm  http://127.0.0.1:4318/#/overview/r1"


def test_names_with_markup_are_text():
    run = {**overview()["run"], "experiment": "[red]x[/red]"}
    assert "[red]x[/red]" in shown({**overview(phases_open=[phase("[bold]")]), "run": run})


def test_many_phases_are_cut_and_counted():
    text = shown(overview(phases_open=[phase(f"p{number}", open_s=number) for number in range(20)]))
    assert "p19" in text
    assert "p2 " not in text
    assert "8 of 20" in text


def test_a_line_changes_only_when_something_happened():
    told = overview(phases_open=[phase(open_s=1.0), phase(open_s=1.5, rank=1)])
    later = overview(phases_open=[phase(open_s=2.0), phase(open_s=2.5, rank=1)])
    assert terminal.line(told, [curve()]) == terminal.line(later, [curve()])
    assert terminal.line(told, [curve()]) == "running, step 12 of 100, critic/score/mean 0.25, in gen"


@pytest.mark.parametrize(
    ("values", "found"),
    [([], ""), ([None, None], ""), ([3], "▁"), ([0, 7], "▁█"), ([1, 1, 1], "▁▁▁"), ([0, None, 7], "▁ █")],
)
def test_sparklines(values, found):
    assert terminal.sparkline(values) == found


def test_a_long_sparkline_keeps_its_ends():
    found = terminal.sparkline(range(1000), 10)
    assert (len(found), found[0], found[-1]) == (10, "▁", "█")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.04, "0.0 s"), (9.96, "10.0 s"), (45.4, "45 s"), (300, "5 min"), (9000, "2.5 h")],
)
def test_durations(seconds, text):
    assert terminal.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (3.0, "3"), (0.123456, "0.1235"), (1e-6, "1e-06"), (2.5e9, "2.5e+09")]
)
def test_numbers(value, text):
    assert terminal.number(value) == text
