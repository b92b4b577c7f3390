"""From an alert on the page to what is to be done about it."""

import time

import requests

from e2e import made_run
from e2e.browser import tab
from local_commands import Commands, wait_for
from otlp_made import event, snapshot
from verl_otel import semconv

RUN = "diverging"
FILE = "prof_step-2_rank-0.json"
SCORES = 8
TOP = 100
"""Pixels within which a heading is that was gone to."""


def diverge(url, folder):
    """A run whose engine has disagreed with its trainer for two minutes, and which was profiled; a step's trace."""
    now = time.time_ns()
    folder.mkdir()
    (folder / FILE).write_text("{}")
    made_run.begin(url, RUN)
    for step in range(1, SCORES + 1):
        at = now - (SCORES + 1 - step) * 15 * made_run.SECOND
        made_run.post(url, snapshot(RUN, step, {"training/rollout_probs_diff_mean": 0.02}, at))
    made = made_run.Made(1, semconv.SPAN_STEP, 0, 1, {semconv.STEP: 2})
    told = {semconv.PROFILER_TOOL: "torch", semconv.PROFILER_PATH: str(folder), semconv.STEP: 2, semconv.RANK: 0}
    made_run.post(url, made_run.spans(RUN, now - made_run.SECOND, [made]), event(RUN, semconv.EVENT_PROFILE, told, now))
    wait_for(
        lambda: requests.get(f"{url}/api/runs/{RUN}/profiles", timeout=10).json().get("files"), "nothing was stored"
    )
    return made.trace.hex()


def test_an_engine_that_disagrees_leads_to_what_to_do_and_to_what_profilers_wrote(chromium, tmp_path):
    with Commands(tmp_path / "local").up() as told, tab(chromium, told["url"]) as page:
        trace = diverge(told["url"], tmp_path / "profiles")
        page.open("overview", RUN)
        alert = page.tab.locator(".alert.critical", has_text="VerlRolloutAndTrainerDisagreeBadly")
        alert.get_by_role("link", name="What to do").click()
        page.settle()
        assert page.tab.get_by_role("heading", name="VerlRolloutAndTrainerDisagree").bounding_box()["y"] < TOP
        page.tab.get_by_role("link", name="the root of a mismatch").click()
        page.settle()
        assert "at=the-root-of-a-mismatch" in page.tab.url
        assert page.tab.get_by_role("heading", name="The root of a mismatch").is_visible()

        page.open("overview", RUN)
        alert.get_by_role("link", name="What profilers and dumps wrote").click()
        page.settle()
        assert FILE in page.frame("What did the profilers write?").inner_text()

        page.open("trace", RUN, trace=trace)
        page.tab.get_by_text("1 file of profilers").click()
        assert page.tab.get_by_text(FILE).is_visible()
        assert page.tab.get_by_text(f"verl-otel export {RUN} --to perfetto --profiler --step 2").is_visible()
        page.check()
