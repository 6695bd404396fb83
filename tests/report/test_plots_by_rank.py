"""Figures of losses and duality gaps by number of components."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("plotly")

from fairpca.report.page.plots import duality_gaps, loss_by_rank


def test_one_line_per_method_or_per_group_of_each():
    figure = loss_by_rank(
        {"PCA": [[3.0, 1.0], [2.0, 0.5]], "worst": [3.0, np.nan]}, groups=["f", "m"], what="loss"
    )
    lines = {line.name: (list(line.x), list(line.y)) for line in figure.data}
    assert lines == {
        "PCA: f": ([1, 2], [3.0, 2.0]),
        "PCA: m": ([1, 2], [1.0, 0.5]),
        "worst": ([1, 2], [3.0, None]),
    }
    assert figure.layout.yaxis.title.text == "loss"
    dashes = [line.line.dash for line in figure.data]
    assert dashes[0] != dashes[1]
    assert figure.data[0].line.color == figure.data[1].line.color != figure.data[2].line.color
    assert loss_by_rank({"a": [1.0]}, logarithmic=True).layout.yaxis.type == "log"


def test_gaps_are_relative_to_the_largest_loss_and_zero_stays_visible():
    figure = duality_gaps({"x": [1e-3, 0.0, 1.0]}, {"x": [[2.0, 1.0], [1.0, 4.0], [0.0, 0.0]]})
    np.testing.assert_allclose(figure.data[0].y, [5e-4, 1e-17, 1e-17])
    assert figure.layout.yaxis.type == "log"
    np.testing.assert_allclose(duality_gaps({"x": [0.25]}).data[0].y, [0.25])


def test_names_from_data_are_text():
    name = "<b>a</b> & <script>"
    for figure in (
        loss_by_rank({name: [[1.0, 2.0]]}, groups=[name, name], what=name),
        duality_gaps({name: [1.0]}),
    ):
        assert figure.data[0].name.startswith("&lt;b&gt;a&lt;/b&gt; &amp; &lt;script&gt;")
        assert "<" not in str(figure.layout.yaxis.title.text)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: loss_by_rank({"a": np.ones((1, 2, 3))}), r"'a' must have the shape"),
        (lambda: loss_by_rank({"a": 1.0}), r"'a' must have the shape"),
        (lambda: loss_by_rank({"a": np.ones((2, 3))}, groups=["x"]), r"more groups than \['x'\]"),
        (lambda: duality_gaps({"a": np.ones((2, 2))}), r"shape \(n,\)"),
        (lambda: duality_gaps({"a": [1.0]}, {}), r"losses\['a'\] must have 1 rows"),
        (lambda: duality_gaps({"a": [1.0]}, {"a": [1.0, 2.0]}), r"must have 1 rows"),
    ],
)
def test_wrong_shapes_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
