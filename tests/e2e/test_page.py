"""The page in a real browser, on the data of the demo's real run: every view, its numbers, its keys, and live."""

import shutil

import pytest
import requests

from e2e import made_run
from e2e.browser import THEMES, VIEWS, logged, number, tab, table
from local_commands import Commands, wait_for

pytestmark = pytest.mark.verl
TITLES = {
    "runs": "Runs",
    "overview": "Is it learning?",
    "curves": "entropy",
    "compare": "Which settings, versions or machines differ?",
    "timeline": "Who does what when?",
    "batch": "Why does the rollout have a tail?",
    "trace": "What bounds step 3?",
    "rollouts": "What did the model do?",
}
KEYS = (
    "critic/score/mean",
    "critic/score/max",
    "actor/grad_norm",
    "perf/throughput",
    "timing_s/gen",
    "global_seqlen/min",
)


class Served:
    """The backend on the demo's folder; a second, made run is there to compare with."""

    def __init__(self, url, real, log):
        self.url, self.run, self.log, self.made = url, real, log, "made"
        made_run.begin(url, self.made)
        for step in range(1, 6):
            made_run.log(url, self.made, step, {"critic/score/mean": step / 4, "made/only": 1.0})
        wait_for(lambda: self.ask("", self.made)["run"]["step"] == 5, "the made run isn't stored")

    def ask(self, path, run=None, **parameters):
        answer = requests.get(f"{self.url}/api/runs/{run or self.run}{path}", parameters, timeout=10)
        return answer.json() if answer.ok else {"run": {"step": None}}

    def parameters(self, view):
        """What a view needs to show something."""
        trace = {"trace": self.ask("/steps")["trace"][-1]}
        return {"compare": {"runs": self.made}, "trace": trace}.get(view, {})

    def open(self, page, view):
        page.open(view, None if view == "runs" else self.run, **self.parameters(view))


@pytest.fixture(scope="module")
def served(demo, tmp_path_factory):
    """Of a copy: the demo's own folder stays as the run left it."""
    observed = demo[2]
    folder = tmp_path_factory.mktemp("served") / "local"
    shutil.copytree(observed.folder / "local", folder)
    real = next(iter((folder / "runs").glob("*.json"))).stem
    with Commands(folder).up() as told:
        yield Served(told["url"], real, logged(observed.folder / "metrics.jsonl"))


@pytest.fixture(scope="module")
def tabs(chromium, served):
    """A tab for each theme, as the system asks for it."""
    with tab(chromium, served.url, "light") as light, tab(chromium, served.url, "dark") as dark:
        yield {"light": light, "dark": dark}


@pytest.fixture
def page(chromium, served):
    """A tab of the test's own."""
    with tab(chromium, served.url) as found:
        yield found
        found.check()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_opens_on_a_real_run_and_everybody_can_use_it(tabs, served, view, theme):
    page = tabs[theme]
    page.complaints.clear()
    served.open(page, view)
    assert page.tab.evaluate("document.documentElement.dataset.theme") == theme
    assert page.tab.get_by_role("alert").all_inner_texts() == []
    assert TITLES.get(view, "") in " ".join(page.titles())
    assert [one["label"] for one in page.pictures() if one["colors"] < 2] == []
    assert page.failings() == []
    page.check()


@pytest.mark.parametrize("key", KEYS)
def test_numbers_of_a_curve_are_those_that_verl_logged(page, served, key):
    page.open("curves", served.run, q=key)
    family = key.rpartition("/")[0]
    card = page.tab.locator(f'.frame:has(h3[title="{key}"], h3[title="{family}"])')
    card.get_by_role("button", name="Table").click()
    shown = {row["step"].split()[-1]: number(row[key]) for row in table(card)}
    assert shown == pytest.approx({str(step): one[key] for step, one in served.log.items() if key in one}, rel=6e-6)


def test_what_was_not_logged_at_a_step_is_absent_in_the_table_and_never_zero(page, served):
    page.open("overview", served.run)
    frame = page.frame("Is it learning?")
    frame.get_by_role("button", name="Table").click()
    rows = table(frame)
    keys = [one for one in rows[0] if one != "step"]
    shown = {(row["step"], key): number(row[key]) for row in rows for key in keys}
    wanted = {(f"step {step}", key): one.get(key) for step, one in served.log.items() for key in keys}
    absent = {place for place, value in wanted.items() if value is None}
    assert absent, "every step has every key: this shows nothing"
    assert {place for place, value in shown.items() if value is None} == absent
    for place in wanted.keys() - absent:
        assert shown[place] == pytest.approx(wanted[place], rel=6e-6)


def test_overview_says_the_last_step_and_its_score(page, served):
    page.open("overview", served.run)
    last = max(served.log)
    assert f"step {last} of {last}" in page.tab.locator("main .tools").first.inner_text()
    legend = page.frame("Is it learning?").locator(".legend .item", has_text="mean").first
    assert number(legend.locator("b").inner_text()) == pytest.approx(served.log[last]["critic/score/mean"], rel=1e-3)


def test_tab_leads_to_every_part_of_a_view(page, served):
    page.open("overview", served.run)
    passed = "\n".join(page.tab_to(lambda focused: focused.startswith("body")))
    for part in ("a.skip", "a.home", "select.picker", "a.  Curves", "a.  Pipeline", "button.quiet  Keys (?)", "Table"):
        assert part in passed
    assert passed.count("div.plot") == page.tab.locator("main .plot").count() > 5
    assert passed.count("Table") == page.tab.get_by_role("button", name="Table").count()


def test_arrows_move_a_charts_cursor_and_it_is_said(page, served):
    page.open("overview", served.run)
    page.tab_to(lambda focused: "div.plot" in focused and "critic/score/mean" in focused)
    said = page.frame("Is it learning?").locator('[aria-live="polite"]')
    assert said.inner_text() == ""
    for step in sorted(served.log):
        page.press("ArrowRight")
        place, _, values = said.inner_text().partition(": mean ")
        wanted = served.log[step].get("critic/score/mean")
        assert place == f"step {step}"
        assert number(values.split(",")[0]) == (wanted if wanted is None else pytest.approx(wanted, rel=1e-3))
    page.press("Escape")
    assert said.inner_text() == ""


def test_help_and_search_have_keys_and_escape_leaves_them(page, served):
    page.open("curves", served.run)
    page.press("?")
    help_ = page.tab.get_by_role("dialog")
    assert "Pictures" in help_.inner_text()
    page.press("Escape")
    assert not help_.is_visible()
    page.press("/")
    page.tab.keyboard.type("grad_norm?")
    assert page.focused().startswith("input.")
    assert not help_.is_visible()
    page.press("Backspace")
    page.press("Escape")
    page.settle()
    assert page.focused().startswith("body.")
    assert page.titles() == ["grad_norm"]


def test_enter_opens_a_trace_from_the_timeline_and_escape_closes_what_it_chose(page, served):
    page.open("timeline", served.run)
    page.tab_to(lambda focused: "div.picture lanes" in focused)
    said = page.tab.locator('#lanes [aria-live="polite"]')
    page.press(".")
    assert said.inner_text().startswith("trainer")
    page.press("Enter")
    page.settle()
    assert "/trace/" in page.tab.url
    assert page.tab.locator(".span-panel").is_visible()
    page.tab_to(lambda focused: "div.waterfall-rows" in focused)
    page.press("ArrowDown")
    assert page.tab.locator(".span-row.selected").count() == 1
    page.press("Escape")
    assert page.tab.locator(".span-panel").count() == 0


def test_enter_opens_a_trajectory_and_its_trace(page, served):
    page.open("rollouts", served.run, step=max(served.log))
    page.tab_to(lambda focused: "div.row opens" in focused)
    page.press("ArrowDown")
    page.press("Enter")
    page.settle()
    page.tab_to(lambda focused: focused.endswith("Its trace"))
    page.press("Enter")
    page.settle()
    assert "/trace/" in page.tab.url
    assert page.titles()[0].startswith("What bounds invoke_agent")


def test_a_new_step_appears_while_the_page_is_open_and_a_zoomed_chart_stays(page, served):
    page.open("overview", served.made)
    page.tab.evaluate("window.sameDocument = true")
    page.tab_to(lambda focused: "div.plot" in focused)
    page.press("ArrowRight", "+")
    page.settle()
    zoomed = page.tab.url
    assert "steps=" in zoomed
    picture = page.frame("Is it learning?").locator(".plot canvas")
    before = picture.evaluate("(it) => it.toDataURL()")
    made_run.log(served.url, served.made, 6, {"critic/score/mean": 0.9, "made/only": 1.0})
    page.tab.get_by_text("step 6").first.wait_for(timeout=5000)
    page.frame("Is it learning?").get_by_text("1 new · fit").wait_for(timeout=5000)
    assert (page.tab.url, picture.evaluate("(it) => it.toDataURL()")) == (zoomed, before)
    page.press("f")
    page.settle()
    assert picture.evaluate("(it) => it.toDataURL()") != before
    assert page.tab.evaluate("window.sameDocument")
