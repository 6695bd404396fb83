"""The registry of methods: complete, true to the classes, and the same for `fit` and `compare`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairpca.cli.method_options import option_words, parse_setting
from fairpca.methods.catalog import ALL, METHODS, PLAIN, chosen, method_named
from fairpca.methods.entry import Facts, Method, once
from tests.estimators.support import PUBLIC_ESTIMATORS

FACTS = Facts(n_components=2, n_features=40, n_directions=30, n_contrasts=1, max_mmd=0.01)
NAMES = [method.name for method in METHODS]


def test_every_public_estimator_is_a_method():
    """A class that lacks here needs one entry in `fairpca.methods.catalog`."""
    assert {method.kind for method in METHODS} == set(PUBLIC_ESTIMATORS)


def test_names_and_labels_are_distinct():
    assert len(set(NAMES)) == len(NAMES)
    labels = [t.trial.label for m in METHODS for t in m.candidates(FACTS, frontier=True)]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", NAMES)
def test_trials_are_parameters_of_the_class(name):
    method = method_named(name)
    candidates = method.candidates(FACTS, frontier=True)
    assert not candidates[0].further
    for _, trial, _ in candidates:
        model = method.build(trial.parameters, n_components=3, no_such_parameter=1)
        expected = {**method.fixed, **trial.parameters, "n_components": 3}
        assert expected.items() <= model.get_params().items()
        assert type(model) is method.kind


def test_further_points_are_no_repetitions():
    candidates = method_named("moment-matching").candidates(FACTS, frontier=True)
    every = [sorted(trial.parameters.items()) for _, trial, _ in candidates]
    assert all(every.count(parameters) == 1 for parameters in every)
    main = method_named("moment-matching").candidates(FACTS)
    assert not any(candidate.further for candidate in main)
    assert [c for c in candidates if not c.further] == main
    assert len(candidates) > len(main) + 5


def test_fixed_parameters_stay():
    assert PLAIN.build({}, match_mean=True, n_unfair=3).get_params()["match_mean"] is False
    assert "match_mean" not in PLAIN.parameters()


def test_counts_leave_room_for_the_components():
    for n_directions in range(2, 40):
        for n_contrasts in (1, 3):
            facts = Facts(2, 200, n_directions, n_contrasts)
            for m in (*facts.counts, *facts.ladder):
                assert m == 1 or n_contrasts * (m + 1) + 2 <= n_directions


def test_choice():
    assert chosen([ALL]) == METHODS
    assert chosen(["worst-group", "multigroup"]) == tuple(
        method_named(n) for n in ("plain-pca", "multigroup", "worst-group")
    )
    with pytest.raises(ValueError, match="there is no method 'pca'; there is plain-pca, moment"):
        chosen(["pca"])


def test_one_entry_is_a_method():
    """What the documentation promises to whoever adds one."""
    method = Method("new", "fairpca.comparison.BicriteriaPCA", "balance", "new", once("n", p=3.0))
    assert method.candidates(FACTS)[0].trial.label == "n"
    assert option_words(method, {"p": 3.0}) == ["--method", "new", "--set", "p=3.0"]


@pytest.mark.parametrize(
    ("text", "value"), [("a=1", 1), ("a=true", True), ("a= [1,2]", [1, 2]), ("a=b=c", "b=c")]
)
def test_settings_are_read_as_values(text, value):
    assert parse_setting(text) == ("a", value)


@pytest.mark.parametrize("text", ["a", "=3", ""])
def test_malformed_settings(text):
    with pytest.raises(ValueError, match="NAME=VALUE"):
        parse_setting(text)


def test_documentation_lists_them():
    text = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+?) \| (yes)? *\|$", text, re.M)
    assert rows == [(m.name, m.about, "yes" if m.default else "") for m in METHODS]
