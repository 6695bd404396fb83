"""Tables on a terminal of any width: no line is wider, and every number is whole."""

from __future__ import annotations

import io
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from fairpca.cli.tables import table_parts

NAMES = st.text("abcé 漢0_<>=,", min_size=1, max_size=30)


def lines(headings, rows, width, **options):
    """What a terminal of this width shows."""
    console = Console(file=io.StringIO(), width=width or 10_000, markup=False, emoji=False)
    for part in table_parts(headings, rows, width=width, **options):
        console.print(part)
    return console.file.getvalue().splitlines()


def shown(text):
    """The numbers, with their signs, that stand by themselves in a text."""
    return sorted(re.findall(r"(?<!\S)[±+-]?\d+\.\d+(?:e[+-]\d+)?(?!\S)", text))


@st.composite
def tables(draw):
    """Methods by groups, or groups by measures, with or without spreads."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_groups, n_rows = draw(st.integers(2, 40)), draw(st.integers(1, 4))
    names = draw(st.lists(NAMES, min_size=n_groups + n_rows, max_size=n_groups + n_rows))
    pattern = draw(st.sampled_from(["{:.1f}", "{:.4f}", "{:.2e}", "{:+.3f}"]))
    spread = draw(st.booleans())

    def cell():
        value, sd = (pattern.format(x) for x in 100 * rng.normal(size=2) ** 2)
        return f"{value} ± {sd}" if spread else value

    rows = [(name, *(cell() for _ in range(n_groups))) for name in names[:n_rows]]
    if draw(st.booleans()):
        rows.insert(1, ("further settings:", *[""] * n_groups))
    return ("method", *names[n_rows:]), rows


@given(tables(), st.integers(20, 200))
def test_every_number_is_whole_in_every_width(table, width):
    headings, rows = table
    found = lines(headings, rows, width)
    assert max(map(cell_len, found)) <= width
    numbers = Counter(" ".join(cell for row in rows for cell in row[1:]).replace("± ", "±").split())
    words = Counter(" ".join(found).replace("± ", "±").split())
    assert numbers <= words  # a name may look like a number, and add to the count


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_thirty_groups_show_their_numbers(width):
    groups = [f"group number {i}" for i in range(30)]
    numbers = [f"{50 + i / 7:.4f}" for i in range(30)]
    found = lines(("method", *groups), [("plain PCA", *numbers)], width)
    assert shown(" ".join(found)) == numbers
    assert max(map(len, found)) <= width


@pytest.mark.parametrize("width", [20, 50, 80, 200])
def test_words_are_folded_between_numbers(width):
    """Loadings are words with numbers in them; a narrow terminal has them as a list."""
    headings = ("method", "direction", "features")
    features = "+0.8437 income, -0.4712 hours, +0.2029 age, +0.1700 a_long_name_of_a_feature"
    found = lines(headings, [("plain PCA", "component 1", features)], width, n_words=3)
    assert shown(" ".join(found)) == ["+0.1700", "+0.2029", "+0.8437", "-0.4712"]
    assert max(map(len, found)) <= width


def test_without_a_terminal_each_row_is_one_line():
    groups = [f"group number {i}" for i in range(40)]
    rows = [(name, *["12.3 ± 4.5"] * 40) for name in ("plain PCA", "a name " * 10)]
    found = lines(("method", *groups), rows, None)
    assert [line.count("12.3 ± 4.5") for line in found if "12.3" in line] == [40, 40]


def test_control_characters_cannot_move_the_cursor():
    text = "\n".join(lines(("a\x1b[2J", "b\r"), [("x\x07\ny", "1.0"), ("[bold]z[/]", "2.0")], 40))
    assert text.isprintable() or set(text) - {c for c in text if c.isprintable()} == {"\n"}
    assert "[bold]z[/]" in text
    assert r"x\x07\ny" in text
