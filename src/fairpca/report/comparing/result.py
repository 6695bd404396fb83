"""What a comparison of methods found: values that the terminal and the HTML page only show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairpca.methods.catalog import DEFAULT
from fairpca.methods.entry import Method
from fairpca.metrics import DownstreamResult, GroupMeasure, LeakageScore
from fairpca.model_selection import Target
from fairpca.report.comparing.by_rank import RankCurves

LINEAR = ("linear",)
NON_LINEAR = ("rbf", "boosted_trees")
"""The classifiers of `attribute_leakage` by what they can read."""


@dataclass(frozen=True)
class Settings:
    """How to compare.

    Parameters
    ----------
    n_components : int, float or None
        k, the same for every method; or, as of the estimators, a share of the variance, or None.
    n_unfair : tuple of int
        m, for each of which the covariance variants are fitted; by default one that suits the
        number of features.
    max_mmd : float
        The largest MMD² that distribution matching may leave on the training rows.
    criterion : str
        As of the estimators. MMD², its p-value, leakage and the difference in rates mean it too.
    pos_label : hashable, optional
        The label that counts as positive; the last one in sorted order by default.
    test_size : float
        Share of rows that are held out, in (0, 1).
    max_samples : int
        The most rows to measure MMD² and leakage on, and to train the classifier on.
    seed : int
        Of the split, the permutations and the classifiers.
    methods : tuple of str
        Names of `fairpca.methods.catalog`, or "all"; plain PCA always takes part.
    frontier : bool
        Try further settings of each method too.
    repeats : int
        Splits of the rows, seeded `seed`, `seed` + 1, and so on.
    n_ranks : int
        Losses of balanced methods are measured with 1 to this many components; 0 for not at all.
    time_limit : float or None
        Seconds that a method that iterates is given to fit one setting and to transform the rows,
        and for its fits with 1, 2, … components together. None for no limit.
    target : Target or None
        Show of each method the setting that keeps most variance at this target, chosen by
        cross-validation of training rows.
    missing_groups : {"error", "unlabelled"}
        As of the estimators; rows without a label are not measured on.
    """

    n_components: int | float | None = 2
    n_unfair: tuple[int, ...] = ()
    max_mmd: float = 1e-3
    criterion: str = "demographic_parity"
    pos_label: Any = None
    test_size: float = 0.3
    max_samples: int = 3_000
    seed: int = 0
    methods: tuple[str, ...] = DEFAULT
    frontier: bool = False
    repeats: int = 1
    n_ranks: int = 8
    time_limit: float | None = 120.0
    target: Target | None = None
    missing_groups: Literal["error", "unlabelled"] = "error"

    def build(self, method: Method, parameters: Mapping[str, Any], **own: Any) -> Any:
        """Return the unfitted estimator of a method, with what all methods share."""
        plain = method.aim == "reference"
        shared = {
            "n_components": self.n_components,
            "criterion": "demographic_parity" if plain else self.criterion,
            "pos_label": None if plain else self.pos_label,
            "missing_groups": self.missing_groups,
            "random_state": self.seed,
        }
        return method.build(parameters, **{**shared, **own})


@dataclass(frozen=True)
class ChosenSetting:
    """How a method's setting was chosen, from cross-validation of training rows.

    It keeps a share of the variance, and the target limits its unfairness: both are means over the
    folds in which they were defined. If the target is not met this is the nearest setting;
    `problem` says why none could be measured.
    """

    label: str
    n_tried: int
    n_folds: int
    kept: float = np.nan
    unfairness: float = np.nan
    standard_error: float = np.nan
    n_measured: int = 0
    met: bool = False
    problem: str = ""


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One row of a comparison.

    Parameters
    ----------
    name : str
        The method.
    problem : str
        Why it could not be fitted; the measures are then NaN. Empty where it could.
    remark : str
        What to know about the numbers, such as that no variance is left. Empty where nothing is.
    parameters : mapping of str to value
        Of the estimator, where they differ from the defaults and from what all methods share.
    method, series : str
        Its registered name, and the line of the frontier that it is a point of.
    aim : str
        "reference", "hide" or "balance".
    further : bool
        Whether it is a point of the frontier only.
    n_removed : int
        Directions removed because they tell groups apart.
    variance_ratio : float
        Share of the held-out variance that is kept, in [0, 1].
    reconstruction : GroupMeasure or None
        Share of each group's held-out variance that is lost, in [0, 1].
    mmd_squared, p_value : float
        Squared maximum mean discrepancy between groups, and its permutation p-value.
    leakage : mapping of str to mapping of str to LeakageScore
        How well each attribute can be read off, by attribute and classifier.
    downstream : DownstreamResult or None
        A classifier of the label, where there is one.
    seconds : float
        Time to fit.
    projection : ndarray of shape (n_shown, n_components)
        Some held-out rows, for a plot.
    components, removed : ndarray of shape (n_components or n_removed, n_features)
        The directions kept, and those removed.
    communalities : ndarray of shape (n_features,)
        Share of each feature's held-out variance that is kept.
    others : tuple of MethodResult
        The same on the further splits, without projections and components.
    chosen : ChosenSetting or None
        How the setting was chosen, where there is a target.
    n_components : int
        Components kept; 0 where it could not be fitted.
    blank : tuple of str
        Why measures are NaN or None that others may have.
    """

    name: str
    problem: str = ""
    remark: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    method: str = ""
    series: str = ""
    aim: str = "hide"
    further: bool = False
    n_removed: int = 0
    variance_ratio: float = np.nan
    reconstruction: GroupMeasure | None = None
    mmd_squared: float = np.nan
    p_value: float = np.nan
    leakage: Mapping[str, Mapping[str, LeakageScore]] = field(default_factory=dict)
    downstream: DownstreamResult | None = None
    seconds: float = np.nan
    projection: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))
    components: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    removed: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 0)))
    communalities: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    others: tuple[MethodResult, ...] = ()
    chosen: ChosenSetting | None = None
    n_components: int = 0
    blank: tuple[str, ...] = ()

    def figures_only(self) -> MethodResult:
        """Return the measures without the arrays, which would be large for many splits."""
        empty = np.empty((0, 0))
        return replace(
            self, projection=empty, components=empty, removed=empty, communalities=np.empty(0)
        )

    @property
    def blanks(self) -> dict[str, int]:
        """Why measures are blank, and on how many splits."""
        return dict(Counter(why for split in (self, *self.others) for why in split.blank))

    def auc(self, *classifiers: str) -> float:
        """Return the best area under the ROC curve over attributes and the given classifiers."""
        scores = [s[c].auc for s in self.leakage.values() for c in classifiers if c in s]
        return max(scores, default=float("nan"))

    @property
    def leakage_p_value(self) -> float:
        """Smallest p-value of leakage over attributes and classifiers, times their number."""
        found = [s.p_value for scores in self.leakage.values() for s in scores.values()]
        return min(1.0, len(found) * min(found)) if found else float("nan")

    @property
    def heading(self) -> str:
        """The name, marked where nothing is left to compare."""
        return f"{self.name} (no variance left)" if self.variance_ratio == 0 else self.name

    @property
    def worst_attribute(self) -> str:
        """The attribute predicted best from the components; empty where none was measured."""
        best = {name: max(s.auc for s in scores.values()) for name, scores in self.leakage.items()}
        return max(best, key=best.__getitem__, default="")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side on one table.

    Parameters
    ----------
    title : str
        What the table is called.
    methods : tuple of MethodResult
        Plain PCA first; further points of the frontier last.
    settings : Settings
        With the numbers that were left to be chosen filled in.
    n_train, n_test, n_measured : int
        Rows fitted on, held out, and used of those for MMD² and leakage; under equal opportunity
        these are rows of positive label.
    n_features : int
        Columns of the encoded matrix.
    group_counts : mapping of str to mapping of label to int
        Rows of each group, per attribute.
    roles : str
        Which columns are no features, and why.
    label : str or None
        The column predicted; its positive value is in `settings`.
    bandwidth : float
        σ of the kernel, from the training rows under plain PCA.
    shown_groups : mapping of str to ndarray of shape (n_shown,)
        The group of each row of `MethodResult.projection`, per attribute; positions in
        `group_counts`.
    feature_names : tuple of str
        Columns of the encoded matrix.
    notes : tuple of str
        Warnings met on the way.
    majority_accuracy : float
        Held-out accuracy of always naming the label most frequent in training; NaN without one.
    commands : mapping of str to str
        The command line that fits a method to all rows, by its name; empty where none is known.
    curves : tuple of RankCurves
        Losses and gaps by number of components, of plain PCA and the balanced methods.
    audited : str
        The name of the fitted model that is measured; empty where methods are compared.
    """

    title: str
    methods: tuple[MethodResult, ...]
    settings: Settings
    n_train: int
    n_test: int
    n_measured: int
    n_features: int
    group_counts: Mapping[str, Mapping[Any, int]]
    roles: str
    label: str | None
    bandwidth: float
    shown_groups: Mapping[str, NDArray[np.intp]]
    feature_names: tuple[str, ...]
    notes: tuple[str, ...]
    majority_accuracy: float = np.nan
    commands: Mapping[str, str] = field(default_factory=dict)
    curves: tuple[RankCurves, ...] = ()
    audited: str = ""

    @property
    def main(self) -> tuple[MethodResult, ...]:
        """The methods without the further points of the frontier."""
        return tuple(method for method in self.methods if not method.further)

    @property
    def components_words(self) -> str:
        """How many components the methods have."""
        k = self.settings.n_components
        if isinstance(k, int):
            return f"{k} components"
        return "all fair components" if k is None else f"components for {k:g} of the variance"

    @property
    def compared(self) -> str:
        """Among which rows groups are compared; empty where it is among all."""
        return {
            "equal_opportunity": f"among rows whose {self.label} is {self.settings.pos_label}",
            "equalized_odds": f"within each value of {self.label}",
        }.get(self.settings.criterion, "")
