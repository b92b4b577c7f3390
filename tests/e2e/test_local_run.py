"""`verl-otel run` on a real run as a user has it: the page while it trains, Ctrl-C, and the page afterwards."""

import signal

import pytest
from run import Run, Running

from e2e.backends import place
from e2e.browser import THEMES, VIEWS, logged, number, tab, table
from local_commands import links, wait_for
from verl_otel.local import backend
from verl_otel.local.client import Client

pytestmark = pytest.mark.verl
SCORE = "critic/score/mean"
SAYS_STEP = """(least) => {
  const said = /step ([\\d,]+) of/.exec(document.querySelector("main .tools")?.innerText ?? "");
  return said !== null && Number(said[1].replace(",", "")) >= least;
}"""
ENDLESS = ("trainer.total_epochs=1000",)


class Live:
    """A run that trains until it is interrupted, and its page."""

    def __init__(self, running):
        self.running, self.folder = running, running.run.logs
        self.url = wait_for(self.links, "no link was printed", 60)[0].rstrip("/")
        wait_for(lambda: max(self.log(), default=0) > 2, "it doesn't train", 300)
        with Client(self.url) as client:
            ((self.run, status),) = ((one["id"], one["status"]) for one in client.runs())
            self.trace = client.run(self.run, "steps")["trace"][-1]
        assert status == "running"

    def links(self):
        return links(self.running.run.output.read_text(errors="replace"))

    def log(self):
        metrics = self.running.run.metrics
        return logged(metrics) if metrics.exists() else {}

    def trains(self):
        return self.running.process.poll() is None

    def open(self, page, view, **parameters):
        """What a view needs beside its run: the trace of a step, a run to compare with."""
        needs = {"trace": {"trace": self.trace}, "compare": {"runs": self.run}}
        page.open(view, None if view == "runs" else self.run, **needs.get(view, {}), **parameters)

    def scores(self, page):
        """By step, those that a curve's table shows at first."""
        self.open(page, "curves", q=SCORE)
        card = page.tab.locator('.frame:has(h3[title="critic/score"])')
        card.get_by_role("button", name="Table").click()
        return {int(row["step"].split()[-1]): number(row[SCORE]) for row in table(card)}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    with Running(Run(1000, "local", overrides=ENDLESS, logs=folder)) as running:
        try:
            yield Live(running)
        finally:
            backend.stop(place(folder))


@pytest.fixture(scope="module")
def tabs(chromium, live):
    with tab(chromium, live.url, "light") as light, tab(chromium, live.url, "dark") as dark:
        yield {"light": light, "dark": dark}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_opens_while_it_trains(tabs, live, view, theme):
    page = tabs[theme]
    live.open(page, view)
    assert page.tab.get_by_role("alert").all_inner_texts() == []
    assert page.titles() or view in ("runs", "guide")
    assert page.failings() == []
    page.check()
    assert live.trains()


def test_the_page_goes_on_with_the_run_and_its_numbers_are_those_logged(tabs, live):
    page = tabs["light"]
    first = live.scores(page)
    page.tab.evaluate("window.sameDocument = true")
    live.open(page, "overview")
    later = max(live.log()) + 2
    page.tab.wait_for_function(SAYS_STEP, arg=later, timeout=120_000)
    second = live.scores(page)
    assert live.trains()
    assert page.tab.evaluate("window.sameDocument")
    assert later > max(first)
    logged = {step: data.get(SCORE) for step, data in live.log().items()}
    assert first == pytest.approx({step: logged[step] for step in first}, rel=6e-6)
    assert second == pytest.approx({step: logged[step] for step in second}, rel=6e-6)


@pytest.fixture(scope="module")
def interrupted(live):
    """The same, ended by Ctrl-C; its exit code."""
    live.running.process.send_signal(signal.SIGINT)
    return live.running.process.wait(120)


def test_ctrl_c_ends_the_command_and_leaves_the_page(interrupted, live, tabs):
    assert interrupted != 0
    _started, last = live.links()
    assert last.startswith(live.url)
    assert last.endswith(live.run)
    page = tabs["light"]
    page.tab.goto(last)
    page.settle()
    assert "interrupted" in page.tab.locator("main .tools").first.inner_text()
    scores = live.scores(page)
    assert scores == pytest.approx({step: live.log()[step].get(SCORE) for step in scores}, rel=6e-6)
    page.check()
