"""Whatever is clicked: no request, no other page, no window; the policy forbids the rest."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import plotly.graph_objects as go
import pytest

from fairpca.experiments import Experiment, Store, reproduce
from fairpca.experiments.framework.output import write_outcome
from fairpca.report.page.whole_page import comparison_page
from tests.report.conftest import Opened

CONTROLS = "a, button, input, select, label, summary, [onclick], .modebar-btn, .legendtoggle"
INSIDE = ("blob:", "data:")  # what the page itself has made
CLICK = """async selector => {
    const clicked = new Map();
    for (let round = 0; round < 3; round++) {
        for (const control of document.querySelectorAll(selector)) {
            const title = control.dataset.title || control.textContent.trim();
            const saves = title.startsWith("Download");
            if (clicked.has(control) || (saves && [...clicked.values()].includes(title))) continue;
            clicked.set(control, title);
            for (const [kind, button] of [["click", 0], ["auxclick", 1]]) {
                const how = { bubbles: true, cancelable: true, view: window, detail: 1, button };
                control.dispatchEvent(new MouseEvent(kind, how));
            }
        }
        await new Promise(go => setTimeout(go, 50));
    }
    return [...clicked.values()];
}"""
ATTEMPTS = """async () => {
    const away = "http://127.0.0.1:9/";
    const add = (tag, properties, parent = document.body) => {
        const made = Object.assign(document.createElement(tag), properties);
        parent.append(made);
        return made;
    };
    const attempts = [
        () => fetch(away + "fetch"),
        () => navigator.sendBeacon(away + "beacon", "x"),
        () => new WebSocket("ws://127.0.0.1:9/"),
        () => new EventSource(away + "events"),
        () => new Worker(away + "worker.js"),
        () => { const r = new XMLHttpRequest(); r.open("POST", away + "xhr"); r.send("x"); },
        () => add("img", { src: away + "img" }),
        () => add("iframe", { src: away + "frame" }),
        () => add("object", { data: away + "object" }),
        () => add("video", { src: away + "video" }),
        () => add("script", { src: away + "script" }),
        () => add("link", { rel: "stylesheet", href: away + "style" }),
        () => add("a", { href: away + "link" }).click(),
        () => add("a", { href: away + "blank", target: "_blank" }).click(),
        () => { add("a", { href: away + "ping", ping: away + "ping" }).click(); },
        () => window.open(away + "window", "_blank"),
        () => {
            const form = add("form", { action: away + "form", method: "post" });
            add("input", { name: "x", value: "y" }, form);
            form.submit();
        },
    ];
    for (const attempt of attempts) {
        try { await attempt(); } catch (error) { }
    }
}"""
"""Links, forms, windows and every kind of request, as a fault or an attack might add them."""


def unit_of(unit, store):
    return [{"metric": "m", "value": 1.0}]


def reproduced(folder):
    """The page of a table computed again, with a figure."""
    experiment = Experiment(
        "squares",
        "</title><img src=x>",
        source="Someone",
        units=lambda *, quick: [{"n": 1}],
        compute=unit_of,
        published=tuple,
        explain=lambda cell: "",
        figures=lambda outcome, store: {
            "</script>": go.Figure(go.Scatter(x=[1, 2], y=[3, 4], name="</script><i>"))
        },
    )
    outcome = reproduce(experiment, cache=folder / "cache", jobs=1)
    write_outcome(outcome, folder, Store(folder / "cache"))
    return folder / "squares.html"


@pytest.fixture(scope="module")
def pages(comparison, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    found = {"reproduce": reproduced(folder)}
    for name, audited in (("compare", ""), ("report", "Model of <b>")):
        found[name] = folder / f"{name}.html"
        text = comparison_page(replace(comparison, audited=audited))
        found[name].write_text(text, "utf-8")
    return {name: path.as_uri() for name, path in found.items()}


@pytest.fixture
def opened(browser, pages, request):
    """A page; requests are let through, so that one would be seen whatever stops it later."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    url = pages[request.param]
    found = Opened(context.new_page(), url)
    found.windows, found.saved, found.answered, found.failed = [], [], [], []
    context.on("response", lambda response: found.answered.append(response.url))
    context.on("requestfailed", lambda asked: found.failed.append((asked.url, asked.failure)))
    context.on("page", lambda page: found.windows.append(page.url))
    found.page.on("dialog", lambda dialog: found.windows.append(dialog.message))
    found.page.on("download", lambda saved: found.saved.append(saved.suggested_filename))
    yield SimpleNamespace(**vars(found), url=url, show=found.show)
    context.close()


@pytest.mark.parametrize("opened", ["compare", "report", "reproduce"], indirect=True)
def test_nothing_leaves(opened):
    page = opened.page
    for panel in page.locator(".panel").all():
        opened.show(panel.get_attribute("id"))
    page.wait_for_selector(".modebar-btn", state="attached")
    clicked = page.evaluate(CLICK, CONTROLS)
    for control in page.locator("nav a, #leakage .modebar-btn").all():
        control.click()  # with a mouse: a browser grants a person more than a script
    page.wait_for_timeout(300)
    assert {asked for asked in opened.asked if not asked.startswith(INSIDE)} == {opened.url}
    titles = {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out"}
    assert titles <= set(clicked)
    assert not [text for text in clicked if "Share" in text or "plotly" in text.lower()]
    assert opened.saved  # a figure as a file is no request
    assert all(name.endswith(".png") for name in opened.saved)

    page.evaluate(ATTEMPTS)
    page.wait_for_timeout(300)
    assert [url for url in opened.answered if not url.startswith(INSIDE)] == []
    assert {why for _, why in opened.failed} <= {"csp"}  # by the policy, before the network
    assert set(opened.visited) == {opened.url}
    assert opened.windows == []
    assert page.evaluate("window.hacked") is None


def test_the_library_knows_no_place_to_upload_to(comparison, tmp_path):
    for text in (comparison_page(comparison), reproduced(tmp_path).read_text("utf-8")):
        assert "cloud.plotly.com" not in text
        assert "chart-studio.plotly.com" not in text
