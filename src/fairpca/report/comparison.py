"""Plain PCA beside its fair variants on one table: what each keeps, and what it gives away.

Everything is fitted on training rows and measured on the others, with one kernel width and the same
rows for every method. The result is a value; the terminal and the HTML page only show it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from fairpca.data.columns import as_table
from fairpca.data.encoder import TableEncoder
from fairpca.data.groups import Groups, encode_groups
from fairpca.data.roles import TableParts, assign_roles, split_table
from fairpca.estimators.moment_matching import MomentMatchingPCA
from fairpca.metrics import (
    DownstreamResult,
    LeakageScore,
    attribute_leakage,
    downstream,
    explained_variance_ratio,
    median_bandwidth,
    mmd_permutation_test,
)

__all__ = ["Comparison", "MethodResult", "Settings", "compare", "compare_parts"]

N_PERMUTATIONS = 499
MIN_GROUP_ROWS = 10
SHOWN_ROWS = 1_000
LINEAR, NON_LINEAR = "linear", ("rbf", "boosted_trees")


@dataclass(frozen=True)
class Settings:
    """How to compare.

    Parameters
    ----------
    n_components : int
        k, the same for every method.
    n_unfair : tuple of int
        m, for each of which the covariance variants are fitted; by default one that suits the
        number of features.
    criterion : str
        As of the estimators.
    positive_label : hashable, optional
        The label that counts as favourable; the last one in sorted order by default.
    test_size : float
        Share of rows that are held out, in (0, 1).
    max_samples : int
        The most rows to measure MMD² and leakage on, and to train the classifier on.
    seed : int
        Of the split, the permutations and the classifiers.
    """

    n_components: int = 2
    n_unfair: tuple[int, ...] = ()
    criterion: str = "demographic_parity"
    positive_label: Any = None
    test_size: float = 0.3
    max_samples: int = 3_000
    seed: int = 0


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One row of a comparison.

    Parameters
    ----------
    name : str
        The method.
    problem : str
        Why it could not be fitted; the measures are then NaN. Empty where it could.
    n_removed : int
        Directions removed because they tell groups apart.
    variance_ratio : float
        Share of the held-out variance that is kept, in [0, 1].
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
    """

    name: str
    problem: str = ""
    n_removed: int = 0
    variance_ratio: float = np.nan
    mmd_squared: float = np.nan
    p_value: float = np.nan
    leakage: Mapping[str, Mapping[str, LeakageScore]] = field(default_factory=dict)
    downstream: DownstreamResult | None = None
    seconds: float = np.nan
    projection: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))

    def auc(self, *classifiers: str) -> float:
        """Return the best area under the ROC curve over attributes and the given classifiers."""
        scores = [s[c].auc for s in self.leakage.values() for c in classifiers if c in s]
        return max(scores, default=float("nan"))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods side by side on one table.

    Parameters
    ----------
    title : str
        What the table is called.
    methods : tuple of MethodResult
        Plain PCA first.
    settings : Settings
        With the numbers that were left to be chosen filled in.
    n_train, n_test, n_measured : int
        Rows fitted on, held out, and used of those for MMD² and leakage.
    n_features : int
        Columns of the encoded matrix.
    group_counts : mapping of str to mapping of label to int
        Rows of each group, per attribute.
    roles : str
        Which columns are no features, and why.
    label, positive_label : str or None, hashable
        The column predicted, and its favourable value.
    bandwidth : float
        σ of the kernel, from the training rows under plain PCA.
    shown_groups : ndarray of str, shape (n_shown,)
        The group of each row of `MethodResult.projection`.
    notes : tuple of str
        Warnings met on the way.
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
    positive_label: Any
    bandwidth: float
    shown_groups: NDArray[np.str_]
    notes: tuple[str, ...]


def compare(
    table: Any,
    *,
    sensitive: Sequence[str],
    label: str | None = None,
    drop: Sequence[str] = (),
    keep_sensitive: bool = False,
    edges: Mapping[str, tuple[float, ...]] | None = None,
    encoder: TableEncoder | None = None,
    settings: Settings | None = None,
    title: str = "table",
) -> Comparison:
    """Compare plain PCA with moment-matching PCA on a table.

    Parameters
    ----------
    table : frame or mapping of columns
        Numbers and text; see `TableEncoder`.
    sensitive : sequence of str
        Sensitive columns, or comparisons such as ``"age>=25"``. They are no features.
    label : str, optional
        The column to predict; no feature either.
    drop : sequence of str
        Further columns to leave out.
    keep_sensitive : bool
        Let sensitive columns be features.
    edges : mapping of str to tuple of float, optional
        Class boundaries of numeric sensitive columns.
    encoder : TableEncoder, optional
        An unfitted encoder with other than the default options.
    settings : Settings, optional
        How to compare.
    title : str
        What to call the table.

    Raises
    ------
    ValueError
        If a column is unknown or cannot be used, or a group is too small to be measured.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 100)
    >>> people = {"x": rng.normal(size=200) + (group == "a"), "y": rng.normal(size=200),
    ...           "z": rng.normal(size=200), "group": group}
    >>> result = compare(people, sensitive=["group"], settings=Settings(n_components=1))
    >>> [method.name for method in result.methods][:2]
    ['plain PCA', 'mean matching']
    """
    table = as_table(table)
    roles = assign_roles(
        table.column_names,
        sensitive=sensitive,
        label=label,
        drop=dict.fromkeys(drop, "dropped"),
        keep_sensitive=keep_sensitive,
        edges=edges,
    )
    return compare_parts(split_table(table, roles), encoder=encoder, settings=settings, title=title)


def compare_parts(
    parts: TableParts,
    *,
    encoder: TableEncoder | None = None,
    settings: Settings | None = None,
    title: str = "table",
) -> Comparison:
    """Compare on a table that has been taken apart; parameters as in `compare`."""
    settings = settings or Settings()
    with _collected() as notes:
        return _compare(parts, encoder or TableEncoder(), settings, title, notes)


def _compare(
    parts: TableParts, encoder: TableEncoder, settings: Settings, title: str, notes: list[str]
) -> Comparison:
    groups = encode_groups(parts.sensitive, n_samples=parts.features.num_rows)
    _check_sizes(groups, parts.features.num_rows, settings)
    train, test = _split(groups, parts, settings)
    bench = _Bench(
        settings,
        encoder.fit_transform(parts.features.take(train)),
        encoder.transform(parts.features.take(test)),
        {name: values[train] for name, values in parts.sensitive.items()},
        {name: values[test] for name, values in parts.sensitive.items()},
        None if parts.label is None else parts.label[train],
        None if parts.label is None else parts.label[test],
    )
    methods = [bench.measure(name, **options) for name, options in bench.variants(groups)]
    found = next((m.downstream for m in methods if m.downstream is not None), None)
    return Comparison(
        title=title,
        methods=tuple(methods),
        settings=settings,
        n_train=len(train),
        n_test=len(test),
        n_measured=len(bench.measured),
        n_features=bench.X_train.shape[1],
        group_counts={
            a.name: dict(zip(a.levels, a.counts.tolist(), strict=True)) for a in groups.attributes
        },
        roles=parts.roles.describe(),
        label=parts.roles.label,
        positive_label=None if found is None else found.positive_label,
        bandwidth=bench.bandwidth,
        shown_groups=_joint_names(groups.take(test[bench.shown])),
        notes=tuple(notes),
    )


class _Bench:
    """The split rows, and the measures that every method goes through alike."""

    def __init__(
        self,
        settings: Settings,
        X_train: NDArray[np.float64],
        X_test: NDArray[np.float64],
        s_train: Mapping[str, NDArray[Any]],
        s_test: Mapping[str, NDArray[Any]],
        y_train: NDArray[Any] | None,
        y_test: NDArray[Any] | None,
    ) -> None:
        self.settings = settings
        self.X_train, self.X_test = X_train, X_test
        self.s_train, self.s_test = s_train, s_test
        self.y_train, self.y_test = y_train, y_test
        groups = encode_groups(s_test, n_samples=len(X_test))
        self.measured = _subset(groups, settings.max_samples, settings.seed)
        self.shown = self.measured[:SHOWN_ROWS]
        plain = MomentMatchingPCA(settings.n_components, match_mean=False).fit(X_train)
        self.bandwidth = median_bandwidth(
            plain.transform(X_train), max_pairs=2_000_000, random_state=settings.seed
        )

    def variants(self, groups: Groups) -> Iterator[tuple[str, dict[str, Any]]]:
        """Name the methods and their parameters, from no constraint to all."""
        yield "plain PCA", {"match_mean": False}
        yield "mean matching", {}
        counts = self.settings.n_unfair or (self._default_n_unfair(groups),)
        for m in counts:
            yield f"covariance matching (m = {m})", {"n_unfair": m, "match_mean": False}
        for m in counts:
            yield f"mean and covariance (m = {m})", {"n_unfair": m}

    def measure(self, name: str, **options: Any) -> MethodResult:
        """Fit one method on the training rows and measure it on the others."""
        settings = self.settings
        constrained = options != {"match_mean": False}
        model = MomentMatchingPCA(
            settings.n_components,
            criterion=settings.criterion if constrained else "demographic_parity",
            pos_label=settings.positive_label,
            random_state=settings.seed,
            **options,
        )
        start = time.perf_counter()
        try:
            model.fit(self.X_train, self.y_train, sensitive_features=self.s_train)
        except ValueError as error:
            if not constrained:
                raise
            return MethodResult(name, problem=str(error))
        seconds = time.perf_counter() - start
        Z = model.transform(self.X_test)
        Z_measured = Z[self.measured]
        s_measured = {k: v[self.measured] for k, v in self.s_test.items()}
        test = mmd_permutation_test(
            Z_measured,
            s_measured,
            bandwidth=self.bandwidth,
            n_permutations=N_PERMUTATIONS,
            random_state=settings.seed,
        )
        return MethodResult(
            name=name,
            n_removed=len(model.unfair_subspace_),
            variance_ratio=explained_variance_ratio(self.X_test, model.components_),
            mmd_squared=test.statistic,
            p_value=test.p_value,
            leakage=self._leakage(Z_measured, s_measured),
            downstream=self._downstream(model, Z),
            seconds=seconds,
            projection=Z[self.shown],
        )

    def _leakage(
        self, Z: NDArray[np.float64], groups: Mapping[str, NDArray[Any]]
    ) -> dict[str, dict[str, LeakageScore]]:
        with threadpool_limits(1):  # on few rows, threads wait for each other longer than they work
            return attribute_leakage(Z, groups, random_state=self.settings.seed)

    def _downstream(
        self, model: MomentMatchingPCA, Z_test: NDArray[np.float64]
    ) -> DownstreamResult | None:
        if self.y_train is None:
            return None
        rows = slice(self.settings.max_samples)  # of rows in random order
        return downstream(
            model.transform(self.X_train[rows]),
            self.y_train[rows],
            Z_test,
            self.y_test,
            self.s_test,
            positive_label=self.settings.positive_label,
            random_state=self.settings.seed,
        )

    def _default_n_unfair(self, groups: Groups) -> int:
        """Return a twentieth of the features, at most 10, or what leaves room for components."""
        n_contrasts = sum(1 if len(a.levels) == 2 else len(a.levels) for a in groups.attributes)
        n, d = self.X_train.shape
        room = (min(n, d) - self.settings.n_components) // n_contrasts - 1
        return int(max(1, min(10, d // 20, room)))


def _split(
    groups: Groups, parts: TableParts, settings: Settings
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split rows at random, with the same share of every group in both parts where possible."""
    cells, _ = groups.joint()
    counts = np.bincount(cells)
    n_test = round(settings.test_size * len(cells))
    balanced = counts.min() >= 2 and min(n_test, len(cells) - n_test) >= len(counts)
    train, test = train_test_split(
        np.arange(len(cells)),
        test_size=settings.test_size,
        random_state=settings.seed,
        stratify=cells if balanced else None,
    )
    return train, test


def _subset(groups: Groups, n_rows: int, seed: int) -> NDArray[np.intp]:
    """Return rows in random order, at most `n_rows`, with every group in proportion."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(groups.n_samples)
    if groups.n_samples <= n_rows:
        return rows
    cells, _ = groups.joint()
    # The rank of a row within its cell, as a share: the smallest shares make a balanced sample.
    order = np.argsort(cells[rows], kind="stable")
    sizes = np.bincount(cells)
    rank = np.concatenate([np.arange(n) for n in sizes]) / np.repeat(sizes, sizes)
    return rows[order][np.argsort(rank, kind="stable")[:n_rows]]


def _check_sizes(groups: Groups, n_rows: int, settings: Settings) -> None:
    if not 0 < settings.test_size < 1:
        raise ValueError(f"test_size must be between 0 and 1, got {settings.test_size}.")
    if settings.n_components < 1:
        raise ValueError(f"n_components must be at least 1, got {settings.n_components}.")
    if settings.max_samples < 100:
        raise ValueError(f"max_samples must be at least 100, got {settings.max_samples}.")
    for attribute in groups.attributes:
        small = [
            f"{level!r} ({n})"
            for level, n in zip(attribute.levels, attribute.counts, strict=True)
            if n < MIN_GROUP_ROWS
        ]
        if small:
            raise ValueError(
                f"{attribute.name!r} has groups of fewer than {MIN_GROUP_ROWS} rows, too few to "
                f"measure on held-out rows: {', '.join(small[:5])}, of {n_rows} rows. Put small "
                "groups together, or leave them out."
            )


def _joint_names(groups: Groups) -> NDArray[np.str_]:
    cells, keys = groups.joint()
    return np.array([", ".join(str(label) for label in key) for key in keys])[cells]


@contextmanager
def _collected() -> Iterator[list[str]]:
    """Collect warnings once each, and issue them again at the end."""
    notes: list[str] = []

    def keep(message: Any, category: type[Warning], *args: Any, **kwargs: Any) -> None:
        if not issubclass(category, DeprecationWarning | FutureWarning):
            notes.extend([str(message)] if str(message) not in notes else [])

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = keep
        yield notes
    for text in notes:
        warnings.warn(text, UserWarning, stacklevel=4)
