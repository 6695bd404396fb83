"""A comparison of a table with hostile names, made once, and a browser to open its page with."""

from __future__ import annotations

import os
import shutil
import warnings

import numpy as np
import pyarrow as pa
import pytest

from fairpca.report import Settings, compare
from tests.quick_classifiers import quick_classifiers

EVIL = "<img src=x onerror=window.hacked=1>"
SCRIPT = "</script><script>window.hacked=2</script>"
QUOTES = "a,b\n😀 \"q\" & 'r' %{x} <b>bold</b>"
TITLE = "evil <svg onload=window.hacked=3>.csv"


@pytest.fixture(scope="module", autouse=True)
def _quick_classifiers():
    with quick_classifiers():
        yield


@pytest.fixture(scope="session")
def comparison():
    """Names that would run, end an element, or be read as markup, wherever names may be."""
    rng = np.random.default_rng(0)
    n = 200
    groups = np.array([EVIL, SCRIPT, QUOTES])[rng.integers(0, 3, n)]
    table = pa.table(
        {
            EVIL: groups,
            "<b>x</b>,\n": rng.normal(size=n) + (groups == EVIL),
            **{f"x{i}": rng.normal(size=n) for i in range(5)},
            SCRIPT: np.array(["<i>no</i>", "yes\u2028"])[rng.integers(0, 2, n)],
        }
    )
    settings = Settings(
        methods=("moment-matching", "multigroup", "worst-group"),
        n_unfair=(1, 2),
        max_samples=100,
        repeats=2,
        n_ranks=3,
    )
    with (
        quick_classifiers(),
        warnings.catch_warnings(action="ignore"),
    ):  # of few directions left, told in the result
        return compare(table, sensitive=[EVIL], label=SCRIPT, settings=settings, title=TITLE)


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FOUND = os.environ.get("FAIRPCA_CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
PATIENCE = 300_000  # milliseconds: a busy machine is no fault of the page


@pytest.fixture(scope="module")
def browser():
    reason = "the page is opened with playwright, which is not installed"
    sync_api = pytest.importorskip("playwright.sync_api", reason=reason)
    if FOUND is None:
        pytest.skip("there is no Chromium to open the page with")
    with sync_api.sync_playwright() as playwright:
        options = {"args": ["--no-sandbox", "--disable-popup-blocking"], "timeout": PATIENCE}
        started = playwright.chromium.launch(executable_path=FOUND, **options)
        yield started
        started.close()


class Opened:
    """A page in the browser with what the browser said and asked for."""

    def __init__(self, page, url):
        self.page, self.said, self.asked, self.visited = page, [], [], []
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.context.on("request", lambda request: self.asked.append(request.url))
        page.on("framenavigated", self._visit)
        page.goto(url)

    def _visit(self, frame):
        if frame == self.page.main_frame:
            self.visited.append(frame.url.partition("#")[0])

    def show(self, key):
        """Bring a section into view and wait until its figures are drawn."""
        self.page.locator(f"#{key}").scroll_into_view_if_needed()
        self.page.wait_for_selector(f"#{key} [data-drawn]")
        return self.page.locator(f"#{key}")

    def traces(self, key):
        """What plotly draws in the first figure of a section."""
        self.show(key)
        script = """key => document.querySelector(`#${key} [data-plot]`).data.map(
            t => ({name: t.name, x: t.x, y: t.y, text: t.text, error: t.error_y?.array}))
        """
        return self.page.evaluate(script, key)

    def layout(self, key):
        return self.page.evaluate("k => document.querySelector(`#${k} [data-plot]`).layout", key)
