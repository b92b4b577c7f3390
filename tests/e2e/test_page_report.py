"""The report: one file in a browser without a network shows what the backend's page shows."""

import shutil

import pytest

from e2e.browser import THEMES, tab
from local_commands import Commands

MOST_BYTES = 5_000_000
VIEWS = ("Overview", "Curves", "Timeline", "Batch", "Rollouts", "Engine", "Hardware", "Pipeline")


def go(page, view):
    """By its link, as a reader does."""
    page.tab.get_by_role("navigation").get_by_role("link", name=view).click()
    page.settle()


def seen(page):
    """What each view shows: its questions, and its pictures by what they say of themselves."""
    found = {}
    for view in VIEWS:
        go(page, view)
        found[view] = page.titles(), sorted(one["label"] for one in page.pictures())
        assert [one["label"] for one in page.pictures() if one["colors"] < 2] == [], view
    return found


@pytest.mark.verl
@pytest.mark.parametrize("theme", THEMES)
def test_report_of_a_real_run_shows_what_the_page_shows_with_the_network_off(demo, chromium, tmp_path, theme):
    folder, report = tmp_path / "local", demo[2].folder / "report.html"
    assert report.stat().st_size < MOST_BYTES
    with tab(chromium, report.as_uri(), theme, offline=True) as page:
        page.tab.goto(report.as_uri())
        page.settle()
        assert page.tab.evaluate("document.documentElement.dataset.theme") == theme
        reported = seen(page)
        assert page.complaints == []
        assert [one for one in page.requests if not one.startswith(("file:", "data:", "blob:"))] == []
    shutil.copytree(demo[2].folder / "local", folder)
    with Commands(folder).up() as told, tab(chromium, told["url"], theme) as page:
        page.open("runs")
        page.tab.get_by_role("table").get_by_role("link").first.click()
        page.settle()
        assert seen(page) == reported
