"""The page that compares methods: which keeps most variance below each level of unfairness."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from fairpca.datasets.recipes import recipe
from fairpca.experiments.framework.cells import grouped
from fairpca.experiments.framework.experiment import Outcome
from fairpca.experiments.framework.results_page import table_head, table_line
from fairpca.experiments.papers.fair_streaming import AT_RANDOM
from fairpca.experiments.papers.table_protocol import load_split

_LEVELS: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"mmd2": (0.1, 0.03, 0.01, 0.003, 0.001), "leakage_auc": (0.9, 0.8, 0.7, 0.6, 0.55)}
)
_WORDS = MappingProxyType({"mmd2": "MMD²", "leakage_auc": "leakage"})
_FORMS = MappingProxyType(
    {"exp_var_pct": ".2f", "mmd2": ".4f", "leakage_auc": ".2f", "fit_seconds": ".2g"}
)
"""How numbers of a metric are written, in the order of the columns."""
_TIE = 0.05  # per cent of the variance: methods closer than this are as good as each other

_CODES = (
    (r"PCA", "MomentMatchingPCA(match_mean=False)"),
    (r"Ours \(offline, mean\)", "MomentMatchingPCA()"),
    (r"Ours \(offline, m=(\d+)\)", r'MomentMatchingPCA(n_unfair=\1, difference="covariance")'),
    (r"Ours \(FNPM, mean\)", 'StreamingMomentMatchingPCA(solver="power")'),
    (r"Ours \(FNPM, m=(\d+)\)", r'StreamingMomentMatchingPCA(n_unfair=\1, solver="power")'),
    (r"Kleindessner et al\. \(2023\) \(mean\)", "CovarianceMatchingPCA(n_kept=None)"),
    (r"Kleindessner et al\. \(2023\) \((0\.\d+)\)", r"CovarianceMatchingPCA(n_kept=\1)"),
    (r"Lee et al\. \(2022\) \((.*)\)", r"DistributionMatchingPCA(tol=\1)"),
    (r"Olfat and Aswani \(2019\) \((.*)\)", r"ConvexMatchingPCA(delta=\1)"),
    (r"RLACE, then PCA", "RLACE()"),
)
"""Rows of the tables as code, but for `n_components`; of equal rows the first is preferred."""


def code_of(method: str) -> str:
    """Return a row of the tables as the code of an estimator; empty where there is none.

    The papers' rows of linear erasure have none: they keep arbitrary directions of what is left.
    Nor has INLP as the papers ran it: linear SVMs without intercept, until k directions are left.

    Examples
    --------
    >>> code_of("Lee et al. (2022) (1e-3)")
    'DistributionMatchingPCA(tol=1e-3)'
    >>> code_of("Ravfogel et al. (2020)")
    ''
    """
    return next((re.sub(p, code, method) for p, code in _CODES if re.fullmatch(p, method)), "")


@dataclass(frozen=True, eq=False)
class _Method:
    """A method of a table: its means by metric, and the number of splits of each mean."""

    name: str
    means: Mapping[str, float]
    splits: Mapping[str, int]

    @property
    def code(self) -> str:
        return f"`{code_of(self.name)}`"

    @property
    def rank(self) -> int:
        """Position in `_CODES`: the simplest method has the lowest."""
        return next(i for i, (pattern, _) in enumerate(_CODES) if re.fullmatch(pattern, self.name))

    @property
    def n(self) -> int:
        """Splits it was measured on."""
        return self.splits["exp_var_pct"]

    @property
    def variance(self) -> float:
        return self.means["exp_var_pct"]

    def keeps_as_much_as(self, other: _Method) -> bool:
        return abs(self.variance - other.variance) <= _TIE

    def numbers(self) -> list[str]:
        return [
            format(self.means[metric], form) if metric in self.means else ""
            for metric, form in _FORMS.items()
        ]


def levels_page(outcomes: Sequence[Outcome]) -> str:
    """Return Markdown: for each data set and k, the method that keeps most at each level.

    Outcomes with the metrics ``exp_var_pct`` and ``mmd2`` of several methods on bundled data count
    (``leakage_auc``, ``fit_seconds`` and `AT_RANDOM` are shown where they are known); the others
    are passed over. Where two know a data set and k, the first counts.
    """
    tables: dict[tuple[str, str], list[_Method]] = {}
    for outcome in outcomes:
        for place, methods in _tables(outcome).items():
            tables.setdefault(place, methods)
    lines = ["# Which method keeps most?", "", *_PREFACE, "", *_glance(tables)]
    for dataset in dict.fromkeys(dataset for dataset, _ in tables):
        lines += ["", f"## {recipe(dataset).title}", "", _about(dataset)]
        for k in (k for known, k in tables if known == dataset):
            lines += ["", f"### {k} components", "", *_section(tables[dataset, k])]
    return "\n".join([*lines, ""])


_PREFACE = (
    "For each bundled data set: the method that keeps most of the variance of unseen rows among",
    "those that stay below a level of unfairness on these rows, on average over ten splits.",
    "",
    "- **%Var** is the share of the variance that is kept, in per cent.",
    "- **MMD²** is the distance between the groups' distributions: 0 if they are equal. In a",
    "  sample it is above 0 even if the groups are equal; below each table stands what plain PCA",
    "  shows when rows are put into groups at random: asking for much less asks for less variance.",
    "- **leakage** is how well the better of a linear and a non-linear classifier tells the group",
    "  from the components: the area under its ROC curve, 0.5 if it can only guess, 1 if it always",
    "  can.",
    "- **seconds** are those of one fit on one core.",
    "",
    "The code is complete but for `n_components` (and the streaming method's blocks: all rows, a",
    "hundred times). Of methods within 0.05 points of the variance the simplest is shown; the",
    "others stand under *as good*. All numbers, from the same files of `fairpca reproduce`, are in",
    "[the results](reproduced.md). For a limit of your own on your own data:",
    '`fairpca compare people.csv --sensitive sex --target "mmd<=0.01"` (or `leakage<=0.6`).',
    "",
    "The first table shows the choices and their %Var; — where no method is below.",
)


def _about(dataset: str) -> str:
    """Describe the rows that methods were fitted to and measured on."""
    split = load_split(dataset, 0)
    found = recipe(dataset)
    (n_train, d), n_test = split.train.X.shape, len(split.test.X)
    return (
        f'`fairpca.datasets.load_{dataset}(preset="streaming")`, groups by '
        f"`{found.splits[found.protected].column}`, which is one of the {d} columns: fitted on "
        f"{n_train:,} rows, measured on {n_test:,}."
    )


def _tables(outcome: Outcome) -> dict[tuple[str, str], list[_Method]]:
    """Collect the cells of each data set and k, by method and metric."""
    cells = [
        cell
        for cell in outcome.cells
        if {"dataset", "k", "method"} <= set(cell.labels)
        and not cell.labels.get("classifier")
        and code_of(str(cell.labels["method"]))
    ]
    found: dict[tuple[str, str], list[_Method]] = {}
    for (dataset, k, name), of_method in grouped(cells, "dataset", "k", "method").items():
        means = {str(c.labels["metric"]): c.mean for c in of_method if c.mean is not None}
        splits = {str(c.labels["metric"]): c.n for c in of_method}
        if {"exp_var_pct", "mmd2"} <= set(means):
            found.setdefault((dataset, k), []).append(_Method(name, means, splits))
    return {place: methods for place, methods in found.items() if len(methods) > 1}


def _glance(tables: Mapping[tuple[str, str], Sequence[_Method]]) -> Iterator[str]:
    """Give one line per data set and k: what to use below each level of MMD², and its %Var."""
    levels = _LEVELS["mmd2"]
    limits = [f"MMD² ≤ {level:g}" for level in levels]
    yield from table_head(("data, components", "no limit", *limits))
    for (dataset, k), methods in tables.items():
        best = [_best(methods, "mmd2", level) for level in (math.inf, *levels)]
        shown = ["—" if method is None else _short(method) for method in best]
        yield table_line(f"{recipe(dataset).title}, {k}", *shown)


def _short(method: _Method) -> str:
    name = method.code.partition("(")[0] + "`"
    return f"{'plain PCA' if method.name == 'PCA' else name} {method.variance:.2f}"


def _section(methods: Sequence[_Method]) -> Iterator[str]:
    yield from table_head(("stay below", "use", "as good", "%Var", "MMD²", "leakage", "seconds"))
    for metric, levels in _LEVELS.items():
        if _below(methods, metric):
            yield from _choices(methods, metric, levels)
    for method in methods:
        if AT_RANDOM in method.means:
            chance = method.means[AT_RANDOM]
            yield from ("", f"MMD² of plain PCA with rows in groups at random: {chance:.2g}.")
    most = max(method.n for method in methods)
    few = [f"{method.code} ({method.n})" for method in methods if method.n < most]
    if few:
        yield from ("", f"Measured on fewer splits and left out: {', '.join(few)}.")


def _choices(methods: Sequence[_Method], metric: str, levels: Sequence[float]) -> Iterator[str]:
    """Give one line per choice, with all levels it is the choice for."""
    by_choice: dict[_Method | None, list[float]] = {}
    for level in levels:
        by_choice.setdefault(_best(methods, metric, level), []).append(level)
    for best, reached in by_choice.items():
        limits = f"{_WORDS[metric]} " + ", ".join(f"{level:g}" for level in reached)
        if best is None:
            least = min(_below(methods, metric), key=lambda method: method.means[metric])
            lowest = f"none of them; the lowest is {least.means[metric]:.3g}, {least.code}"
            yield table_line(limits, lowest, "", *least.numbers())
            continue
        as_good = ", ".join(
            method.code
            for method in _below(methods, metric, min(reached))
            if method is not best and method.keeps_as_much_as(best)
        )
        yield table_line(limits, best.code, as_good, *best.numbers())


def _below(methods: Sequence[_Method], metric: str, level: float = math.inf) -> list[_Method]:
    """Return the methods whose metric is at most `level`, of those measured on all splits."""
    most = max(method.n for method in methods)
    known = [m for m in methods if m.n == most and m.splits.get(metric) == most]
    return [m for m in known if m.means[metric] <= level]


def _best(methods: Sequence[_Method], metric: str, level: float) -> _Method | None:
    """Return the simplest of those that keep most variance below a level."""
    below = _below(methods, metric, level)
    if not below:
        return None
    most = max(below, key=lambda method: method.variance)
    return min((m for m in below if m.keeps_as_much_as(most)), key=lambda method: method.rank)
