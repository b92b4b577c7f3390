"""The page in a real browser: Debian's Chromium, headless, driven by Playwright; no name but 127.0.0.1 is resolved."""

import contextlib
import io
import json
import shutil
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from PIL import Image
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = Path(__file__).resolve().parents[2] / "page" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = (
    "runs", "overview", "curves", "compare", "timeline", "batch", "trace", "rollouts", "engine", "hardware", "pipeline",
    "guide",
)  # fmt: skip
THEMES = ("light", "dark")
SIZE = {"width": 1280, "height": 800}

# True once nothing is being read, and nothing began to be for a third of a second.
SETTLED = """() => new Promise((done) => {
  let calm = performance.now();
  const look = () => {
    const now = performance.now();
    if (!document.querySelector("main *") || document.querySelector('[aria-busy="true"]')) calm = now;
    if (now - calm > 300) done(true); else requestAnimationFrame(look);
  };
  look();
})"""

DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"

# What each picture in the view is, and how many colours it has (at most ten are counted).
PICTURES = """() => [...document.querySelectorAll("main canvas")].map((canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  const colors = new Set();
  for (let at = 0; at < data.length && colors.size < 10; at += 4)
    colors.add((data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3]);
  return { label: canvas.getAttribute("aria-label"), colors: colors.size };
})"""


class Watched:
    """A tab, and all that it complains of or asks for."""

    def __init__(self, tab, origin):
        """`origin`: of what it may ask for; "" lets it ask for nothing."""
        self.tab, self.origin = tab, origin
        self.complaints, self.requests = [], []
        tab.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("request", lambda request: self.requests.append(request.url))

    def open(self, view, run=None, **parameters):
        """A view of a run, until it is drawn."""
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in parameters.items())
        place = f"#/{view}" + (f"/{quote(run, safe='')}" if run else "") + (f"?{query}" if query else "")
        self.tab.goto(f"{self.origin}/{place}")
        self.settle()

    def settle(self):
        """Until all that is shown has its answer."""
        self.tab.evaluate(SETTLED)

    def titles(self):
        """Of the frames."""
        return self.tab.locator("main .frame h3").all_inner_texts()

    def frame(self, title):
        """One of them, by its title."""
        return self.tab.locator(".frame", has=self.tab.get_by_role("heading", name=title, exact=True))

    def pictures(self):
        """Each canvas: its label, and how many colours it has."""
        return self.tab.evaluate(PICTURES)

    def focused(self):
        """What has the keyboard: its role, classes and name, as one line."""
        return self.tab.evaluate(
            """() => {
              const it = document.activeElement;
              const name = it.getAttribute("aria-label") ?? it.textContent.trim().slice(0, 60);
              return `${it.tagName.toLowerCase()}.${it.className} ${it.id} ${name}`;
            }"""
        )

    def press(self, *keys):
        """Each of them, and wait until what it changed is drawn."""
        for key in keys:
            self.tab.keyboard.press(key)
            self.tab.evaluate(DRAWN)

    def tab_to(self, wanted, most=150):
        """Press Tab until `wanted(what is focused)`, like somebody without a mouse."""
        passed = []
        for _ in range(most):
            self.tab.keyboard.press("Tab")
            passed.append(self.focused())
            if wanted(passed[-1]):
                return passed
        raise AssertionError(f"Tab doesn't lead there: {passed}")

    def take(self, path):
        """A picture of the window, small enough to be kept with the documentation."""
        image = Image.open(io.BytesIO(self.tab.screenshot()))
        image.convert("RGB").quantize(256, kmeans=3, dither=Image.Dither.NONE).save(path, optimize=True)

    def failings(self):
        """What axe-core finds that is serious or critical: rule, how many, the first."""
        if not self.tab.evaluate("() => 'axe' in window"):
            self.tab.evaluate(AXE.read_text())
        found = self.tab.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        return [
            f"{one['id']} ({len(one['nodes'])}): {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    def check(self):
        """It complained of nothing, and asked nobody else."""
        assert self.complaints == []
        strangers = [one for one in self.requests if not one.startswith((f"{self.origin}/", "data:", "blob:"))]
        assert strangers == []


@contextlib.contextmanager
def launched():
    """The browser; skips where there is none."""
    if CHROMIUM is None:
        pytest.skip("left out: there is no Chromium here (Debian's package chromium)")
    with sync_playwright() as playwright:
        # Whatever it asks for elsewhere must fail here as it would without a network.
        rules = "--host-resolver-rules=MAP rebound.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=[rules])
        yield chromium
        chromium.close()


@contextlib.contextmanager
def tab(chromium, url, theme="light", offline=False):
    """A tab in a profile of its own."""
    context = chromium.new_context(viewport=SIZE, color_scheme=theme, offline=offline, reduced_motion="reduce")
    context.set_default_timeout(10_000)
    parts = urlsplit(url)
    try:
        yield Watched(context.new_page(), f"{parts.scheme}://{parts.netloc}" if parts.scheme == "http" else url)
    finally:
        context.close()


def table(frame):
    """A frame's twin as a table: column to cell for each row."""
    names = frame.get_by_role("columnheader").all_inner_texts()
    rows = [row.get_by_role("cell").all_inner_texts() for row in frame.locator("[data-row]").all()]
    return [dict(zip(names, row, strict=True)) for row in rows]


def number(text):
    """What a cell says; None for what is absent."""
    return None if text == "—" else float(text.replace("\N{MINUS SIGN}", "-").replace(",", ""))


def logged(path):
    """verl's own log: step to key to value."""
    return {one["step"]: one["data"] for one in map(json.loads, path.read_text().splitlines())}
