"""The page in a real browser: no errors, no requests, controls that work, names that stay text."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fairpca.methods.catalog import METHODS
from fairpca.report.page.columns import columns_of
from fairpca.report.page.whole_page import comparison_page
from tests.report.conftest import EVIL, QUOTES, SCRIPT, TITLE, Opened


@pytest.fixture(scope="module")
def url(comparison, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(comparison_page(comparison), "utf-8")
    return path.as_uri()


@pytest.fixture
def opened(browser, url):
    page = browser.new_page(viewport={"width": 1200, "height": 900}, offline=True)
    yield Opened(page, url)
    page.close()


def column(comparison, key):
    return next(c for c in columns_of(comparison) if c.key == key)


def close(found, expected):
    """Whether lists of numbers agree, None being absent."""
    return [None if v is None else pytest.approx(v) for v in expected] == found


def test_opens_without_errors_or_requests(opened, url):
    for panel in opened.page.locator(".panel").all():
        opened.show(panel.get_attribute("id"))
    opened.page.wait_for_timeout(300)
    assert opened.said == []
    assert opened.asked == [url]
    drawn = opened.page.locator("[data-plot] .main-svg").count()
    assert drawn >= opened.page.locator("[data-plot][data-drawn]").count() > 4


def test_hostile_names_stay_text(opened):
    for panel in opened.page.locator(".panel").all():
        opened.show(panel.get_attribute("id"))
    opened.page.mouse.move(600, 400)
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("img, iframe, svg[onload], a[href*=script]").count() == 0
    assert opened.page.title() == f"Fair PCA on {TITLE}"
    assert TITLE in opened.page.locator("h1").inner_text()
    cells = opened.page.locator("#reading td").all_inner_texts()
    assert {EVIL, SCRIPT} < set(cells)
    names = opened.page.locator("#projections-1 .legendtext").all_text_contents()
    assert EVIL in names
    assert SCRIPT in names
    # plotly sets line breaks as spaces
    assert QUOTES.replace("\n", " ") in [name.replace("\n", " ") for name in names]


def test_the_policy_stops_a_script_that_got_in(opened):
    """Were escaping to fail, the browser would still run nothing but the page's own scripts."""
    script = """() => {
        const added = document.createElement("script");
        added.textContent = "window.hacked = 9";
        document.body.append(added);
        const image = document.createElement("img");
        image.src = "http://127.0.0.1:9/x.png";
        image.setAttribute("onerror", "window.hacked = 8");
        document.body.append(image);
    }"""
    stopped = []
    opened.page.on("requestfailed", lambda request: stopped.append((request.url, request.failure)))
    opened.page.evaluate(script)
    opened.page.wait_for_timeout(300)
    assert opened.page.evaluate("window.hacked") is None
    assert stopped == [("http://127.0.0.1:9/x.png", "csp")]  # by the policy, before the network


def test_axes_show_what_is_chosen(opened, comparison):
    opened.show("frontier")
    for key in ("leakage_linear_auc", "demographic_parity_difference", "worst_group_error_percent"):
        opened.page.select_option("#frontier select[data-axis=x]", key)
        by_series = {trace["name"]: trace for trace in opened.traces("frontier")}
        chosen, variance = column(comparison, key), column(comparison, "variance_percent")
        for name, trace in by_series.items():
            points = [m for m in comparison.methods if m.series == name and not m.problem]
            expected = sorted((variance.mean(m), chosen.mean(m), variance.sd(m)) for m in points)
            assert close(trace["y"], [p[0] for p in expected])
            assert sorted(filter(None, trace["x"])) == pytest.approx(
                sorted(p[1] for p in expected if p[1] == p[1] and p[1] != 0)
            )
            assert sorted(trace["error"]) == pytest.approx(sorted(p[2] for p in expected))
        assert chosen.axis in opened.layout("frontier")["xaxis"]["title"]["text"]
        status = opened.page.locator("#frontier [role=status]").inner_text()
        assert status.startswith(f"{variance.axis} against {chosen.axis}: ")


def test_scale_and_spread(opened):
    opened.show("frontier")
    assert opened.layout("frontier")["xaxis"].get("type") != "log"
    opened.page.check("#frontier [data-scale=x]")
    assert opened.layout("frontier")["xaxis"]["type"] == "log"
    assert opened.traces("frontier")[0]["error"]
    opened.page.uncheck("#frontier [data-spread]")
    assert not opened.traces("frontier")[0]["error"]


def test_only_unbeaten_settings(opened):
    every = [(x, y) for t in opened.traces("frontier") for x, y in zip(t["x"], t["y"], strict=True)]
    every = [(x, y) for x, y in every if x is not None and y is not None]
    opened.page.check("#frontier [data-best]")
    left = [(x, y) for t in opened.traces("frontier") for x, y in zip(t["x"], t["y"], strict=True)]
    beaten = [
        (x, y) for x, y in every if any(a <= x and b >= y and (a < x or b > y) for a, b in every)
    ]  # less MMD², more variance
    assert 0 < len(left) < len(every)
    assert sorted(left + beaten) == sorted(every)


def test_methods_are_chosen_for_all_figures(opened):
    for key in ("frontier", "projections-1", "leakage", "losses"):
        opened.show(key)
    opened.page.click("[data-all='']")
    assert opened.traces("frontier") == []
    assert opened.page.locator("#projections-1 figure:visible").count() == 0
    opened.page.check("#series input[value=multigroup]")
    assert [trace["name"] for trace in opened.traces("frontier")] == ["multigroup"]
    visible = opened.page.locator("#projections-1 figure:visible figcaption").all_inner_texts()
    assert visible == ["multigroup"]
    assert [trace["x"] for trace in opened.traces("leakage")] == [["multigroup"]] * 2
    assert len(opened.traces("losses")) == 3  # groups
    opened.page.click("[data-all=yes]")
    assert len(opened.traces("frontier")) > 3


def test_losses_show_what_is_chosen(opened, comparison):
    opened.show("losses")
    opened.page.select_option("#losses select[data-axis=y]", "marginal, training rows")
    traces = opened.traces("losses")
    expected = [
        column for c in comparison.curves for column in c.losses["marginal", "training"].T.tolist()
    ]
    assert len(traces) == len(expected) > 6
    for trace, numbers in zip(traces, expected, strict=True):
        assert trace["y"] == pytest.approx(numbers)


def test_hovering_tells_the_numbers(opened, comparison):
    opened.show("frontier")
    texts = [text for trace in opened.traces("frontier") for text in trace["text"]]
    plain = comparison.methods[0]
    shown = next(text for text in texts if "<b>plain PCA</b>" in text)
    for found in columns_of(comparison):
        assert f"{found.heading} {found.text(plain)}" in shown


def test_keyboard(opened):
    """Every control is reached with Tab and worked without a mouse."""
    page = opened.page
    opened.show("frontier")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        script = "() => (e => e.tagName + (e.dataset.axis || e.dataset.scale || e.value || ''))"
        reached.add(page.evaluate(f"({script})()(document.activeElement)"))
    assert {"SELECTx", "SELECTy", "INPUTx", "INPUTmultigroup", "SUMMARY"} <= reached
    page.focus("#series input[value=multigroup]")
    page.keyboard.press("Space")
    assert "multigroup" not in [trace["name"] for trace in opened.traces("frontier")]
    page.focus("#frontier select[data-axis=x]")
    before = opened.layout("frontier")["xaxis"]["title"]["text"]
    page.keyboard.press("ArrowDown")
    assert opened.layout("frontier")["xaxis"]["title"]["text"] != before
    page.focus("#frontier summary")
    page.keyboard.press("Enter")
    assert page.locator("#frontier table").is_visible()


def test_screen_readers_find_their_way(opened):
    page = opened.page
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        assert page.get_by_role(landmark).count() == 1
    figures = page.locator("[data-plot]")
    assert figures.count() == page.locator("[data-plot][role=img][aria-label]").count()
    for control in page.locator("select, input").all():
        assert control.evaluate("e => e.labels.length") == 1
    script = """() => [...document.querySelectorAll("table")].every(t => t.caption &&
        [...t.rows].every(r => r.querySelector("th[scope]")))"""
    assert page.evaluate(script)
    script = (
        """() => [...document.querySelectorAll(".panel")].every(p => p.querySelector("table"))"""
    )
    assert page.evaluate(script)
    levels = [int(h.evaluate("e => e.tagName[1]")) for h in page.locator("h1, h2, h3").all()]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_on_paper(opened):
    """Tables are open and figures drawn; controls are gone."""
    page = opened.page
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert page.locator("[data-plot]:not([data-drawn])").count() == 0
    assert not page.locator(".controls").first.is_visible()
    assert page.locator("#frontier table").is_visible()
    widths = page.locator(".main-svg").evaluate_all("list => list.map(e => e.clientWidth)")
    assert max(widths) <= 660
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert len(page.pdf()) > 50_000
    assert opened.said == []


@pytest.mark.parametrize("width", [360, 1200])
def test_no_sideways_scrolling(browser, url, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    found = Opened(page, url)
    for panel in page.locator(".panel").all():
        found.show(panel.get_attribute("id"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_methods_are_explained(opened):
    terms = opened.page.locator("#reading dt").all_inner_texts()
    assert {"moment-matching", "multigroup", "worst-group", "MMD²"} <= set(terms)
    assert not set(terms) & {m.name for m in METHODS if m.name == "bicriteria"}
