"""The page on a big fleet's made-up data (`verl-otel up --demo`): it opens, its report is small, its pictures."""

import json
import re
from pathlib import Path

import pytest
import requests

from e2e.browser import THEMES, VIEWS, tab
from local_commands import Commands, wait_for

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
TAKEN = ROOT / ".work" / "pictures"
MOST_BYTES, MOST_IMAGE_BYTES = 5_000_000, 150_000


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    return Commands(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def url(commands):
    """Of a backend that has all of the fleet's run."""
    with commands.up("--demo") as told:
        wait_for(lambda: commands.runs().get("demo", {}).get("status") == "finished", "the demo isn't stored", 120)
        yield told["url"]


def places(url):
    """What each view is opened with, to show the run's last steps."""
    asked = f"{url}/api/runs/demo"
    step = requests.get(f"{asked}/steps", timeout=10).json()["steps"][-1]
    rows = {"step": step, "sort": "turns", "desc": "true", "limit": 1}
    longest = requests.get(f"{asked}/trajectories", rows, timeout=10).json()["rows"][0]
    return {
        "timeline": {"steps": f"{step - 2}-{step}"},
        "rollouts": {"step": step, "sort": "reward"},
        "trace": {"trace": longest["trace"], "span": longest["span"]},
    }


@pytest.mark.parametrize("theme", THEMES)
def test_every_view_opens_and_its_picture_is_taken(chromium, url, theme):
    TAKEN.mkdir(parents=True, exist_ok=True)
    wanted = places(url)
    with tab(chromium, url, theme) as page:
        for view in VIEWS:
            page.open(view, None if view == "runs" else "demo", **wanted.get(view, {}))
            assert page.tab.get_by_role("alert").all_inner_texts() == [], view
            path = TAKEN / f"{view}-{theme}.png"
            page.take(path)
            assert path.stat().st_size < MOST_IMAGE_BYTES
        page.check()


def test_pictures_of_the_readme_are_there_and_small():
    shown = re.findall(r"docs/images/[\w-]+\.png", (ROOT / "README.md").read_text())
    assert {ROOT / one for one in shown} == {*IMAGES.glob("*.png")} != set()
    assert [one for one in shown if (ROOT / one).stat().st_size > MOST_IMAGE_BYTES] == []


def test_report_of_a_thousand_steps_is_small_and_opens(chromium, commands, url, tmp_path):
    report = tmp_path / "report.html"
    done = commands("report", "demo", "-o", report, "--json")
    assert json.loads(done.stdout)["bytes"] == report.stat().st_size < MOST_BYTES
    with tab(chromium, report.as_uri(), offline=True) as page:
        page.tab.goto(report.as_uri())
        page.settle()
        assert "step 1,000 of 1,000" in page.tab.locator("main").inner_text()
        for link in page.tab.get_by_role("navigation").get_by_role("link").all():
            link.click()
            page.settle()
            assert [one["label"] for one in page.pictures() if one["colors"] < 2] == [], page.tab.url
            assert page.pictures() or "/compare/" in page.tab.url, page.tab.url
        assert page.complaints == []


def test_what_is_beyond_the_rows_sent_at_once_is_reached(chromium, url):
    lanes = requests.get(f"{url}/api/runs/demo/timeline", {"width": 10, "rows": 0}, timeout=10).json()["total_lanes"]
    worst = requests.get(f"{url}/api/runs/demo/timeline", {"rows": 1, "order": "idle"}, timeout=10).json()["lanes"]
    assert lanes > 1024
    with tab(chromium, url) as page:
        page.open("timeline", "demo", order="idle")
        page.tab.get_by_text(f"16 of {lanes:,} rows, the worst by idle share").wait_for()
        assert page.tab.locator(".lane-labels button").first.inner_text() == worst[0]["lane"]
        page.open("rollouts", "demo")
        page.tab.get_by_role("button", name="1,000 after").click()
        page.settle()
        assert "after the first 1,000" in page.frame("What did the model do?").inner_text()
        assert not page.tab.get_by_role("button", name="1,000 before").is_disabled()
        page.check()


def drag(page, strip, begin, end):
    """Over a strip, from and to a share of its width."""
    box = strip.bounding_box()
    middle = box["y"] + box["height"] / 2
    before = page.tab.url
    page.tab.mouse.move(box["x"] + begin * box["width"], middle)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + end * box["width"], middle, steps=5)
    page.tab.mouse.up()
    page.tab.wait_for_function("(before) => location.href !== before", arg=before)
    page.tab.wait_for_timeout(500)  # it may have rested in between: the address has the last rest
    page.settle()


@pytest.mark.parametrize(("view", "parameter"), [("timeline", "times"), ("trace", "part")])
def test_a_drag_over_the_whole_chooses_a_part_and_one_within_it_moves_it(chromium, url, view, parameter):
    step = requests.get(f"{url}/api/runs/demo/steps", timeout=10).json()["trace"][-1]

    def part():
        first, last = re.search(rf"{parameter}=([\d.]+)-([\d.]+)", page.tab.url).groups()
        return float(first), float(last)

    with tab(chromium, url) as page:
        page.open(view, "demo", **({"trace": step} if view == "trace" else {}))
        strip = page.tab.locator(".minimap canvas").first
        drag(page, strip, 0.2, 0.6)
        first, last = part()
        drag(page, strip, 0.4, 0.5)
        moved, end = part()
        assert moved - first == pytest.approx((last - first) / 4, rel=0.05)
        assert end - moved == pytest.approx(last - first, rel=0.01)
        page.check()
