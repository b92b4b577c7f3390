"""What the page shows is only shown, and only the page may ask: hostile names, pages of other origins, other hosts."""

import contextlib
import functools
import http.server
import threading

import pytest
import requests

from e2e import made_run
from e2e.browser import tab
from e2e.made_run import HOSTILE, TRACE, TRAJECTORY
from local_commands import Commands, wait_for
from otlp_made import traces

# Views that show names or values that a run chose; what is painted is said beside its picture.
SHOWN = {
    "runs": {},
    "overview": {},
    "curves": {},
    "compare": {},
    "timeline": {},
    "batch": {"step": 1},
    "trace": {"trace": TRACE.hex(), "span": f"{3:016x}"},
    "rollouts": {"step": 1, "open": f"{TRAJECTORY.hex()}/{11:016x}"},
    "engine": {},
    "hardware": {},
    "pipeline": {},
}
MARK = HOSTILE.partition(" onerror")[0]
ASKING = """async ([url, body, run]) => {
  const said = {};
  const wanted = { read: ["api/runs", {}], remove: [`api/runs/${run}`, { method: "DELETE" }] };
  const headers = { "content-type": "application/x-protobuf" };
  wanted.send = ["v1/traces", { method: "POST", headers, body: new Uint8Array(body) }];
  wanted["send simply"] = ["v1/traces", { method: "POST", mode: "no-cors", body: new Uint8Array(body) }];
  for (const [name, [path, how]] of Object.entries(wanted))
    said[name] = await fetch(`${url}/${path}`, how).then((it) => it.text(), () => "failed");
  return said;
}"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    return Commands(tmp_path_factory.mktemp("safety"))


@pytest.fixture(scope="module")
def url(commands):
    """Of a backend that has a hostile run, and another."""
    with commands.up() as told:
        made_run.begin(told["url"], "victim")
        made_run.log(told["url"], "victim", 1, {"critic/score/mean": 0.5})
        made_run.hostile(told["url"])
        wait_for(lambda: names(told["url"]) == {"victim", f"hostile {HOSTILE}"}, "the runs aren't stored")
        yield told["url"]


def runs(url):
    return requests.get(f"{url}/api/runs", timeout=10).json()["runs"]


def names(url):
    return {one["id"] for one in runs(url)}


@pytest.fixture(scope="module")
def page(chromium, url):
    with tab(chromium, url) as found:
        yield found


def harmless(page):
    """Nothing of a name became an element, ran, or was tried to be loaded."""
    assert page.tab.evaluate("window.ran") is None
    assert page.tab.locator("#page img, #page script, #page iframe").count() == 0
    page.check()


@pytest.mark.parametrize("view", SHOWN)
def test_hostile_names_are_text(page, url, view):
    if view == "runs":
        page.open(view)
    else:
        more = {"runs": "victim"} if view == "compare" else SHOWN[view]
        page.open(view, f"hostile {HOSTILE}", **more)
    for toggle in page.tab.locator("main summary").all():
        toggle.click()
    shown = page.tab.locator("main").inner_text()
    while (toggle := page.tab.get_by_role("button", name="Table", exact=True)).count():
        toggle.first.click()
    page.settle()
    assert MARK in shown + page.tab.locator("main").inner_text()
    harmless(page)


def test_hostile_names_are_text_in_a_report(chromium, commands, url, tmp_path):
    report = tmp_path / "report.html"
    assert commands("report", f"hostile {HOSTILE}", "--content", "-o", report).returncode == 0
    with tab(chromium, report.as_uri(), offline=True) as page:
        page.tab.goto(report.as_uri())
        for link in ("Overview", "Curves", "Timeline", "Batch", "Rollouts", "Engine", "Hardware", "Pipeline"):
            page.tab.get_by_role("navigation").get_by_role("link", name=link).click()
            page.settle()
            while (toggle := page.tab.get_by_role("button", name="Table", exact=True)).count():
                toggle.first.click()
            page.settle()
            assert MARK in page.tab.locator("body").inner_text()
            assert page.tab.evaluate("window.ran") is None
        assert page.complaints == []


@contextlib.contextmanager
def elsewhere(folder):
    """A page of another port of loopback; its address."""
    (folder / "index.html").write_text("<!doctype html><title>another page</title>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_page_of_another_origin_can_neither_read_nor_write(chromium, url, tmp_path):
    """Without CORS a browser still sends what is simple, and a page of the same host counts as the same site."""
    body = list(traces("forged").SerializeToString())
    before = names(url)
    with elsewhere(tmp_path) as other, tab(chromium, other) as page:
        page.tab.goto(other)
        said = page.tab.evaluate(ASKING, [url, body, "victim"])
        assert said == dict.fromkeys(("read", "remove", "send", "send simply"), "failed")
        told = {"origin": other, "content-type": "application/x-protobuf"}
        assert requests.post(f"{url}/v1/traces", bytes(body), headers=told, timeout=10).status_code == 403
        frame = "(url) => new Promise((done) => { const it = document.createElement('iframe'); it.onload = () => "
        frame += "done(it.contentDocument === null); it.src = url; document.body.append(it); })"
        assert page.tab.evaluate(frame, url)
        assert "frame-ancestors" in " ".join(page.complaints)
    made_run.log(url, "victim", 2, {"critic/score/mean": 0.5})  # what came before it would be stored by then
    wait_for(lambda: [one["step"] for one in runs(url) if one["id"] == "victim"] == [2], "it isn't stored")
    assert names(url) == before


def test_the_page_itself_may_send_and_ask(page, url):
    """What is refused above is not refused to everybody."""
    page.open("runs")
    said = page.tab.evaluate(ASKING, [url, list(traces("own").SerializeToString()), "nobody"])
    assert '"runs"' in said["read"]
    wait_for(lambda: "own" in names(url), "the page's own request isn't stored")


def test_a_name_that_was_made_to_point_here_is_refused(chromium, url):
    """DNS rebinding: the browser takes the page for that name's own."""
    port = url.rpartition(":")[2]
    with tab(chromium, f"http://rebound.test:{port}") as page:
        assert page.tab.goto(f"http://rebound.test:{port}/api/runs").status == 421
        assert page.tab.goto(f"http://rebound.test:{port}/").status == 421
        assert HOSTILE not in page.tab.content()
    answer = requests.post(f"{url}/v1/traces", b"", headers={"host": "rebound.test"}, timeout=10)
    assert answer.status_code == 421
