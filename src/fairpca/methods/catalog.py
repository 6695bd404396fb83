"""All methods by name: a new one is one entry here, and `fit` and `compare` then know it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairpca.methods.entry import Facts, Method, Trial, Tries, once, several

ALL = "all"


def _moments(facts: Facts) -> Iterable[Trial]:
    """Try the published variants: means, second moments, both."""
    yield Trial("mean matching", {}, "means and second moments")
    yield from _without_means(facts.counts)
    yield from _with_means(facts.counts)


def _more_moments(facts: Facts) -> Iterable[Trial]:
    yield from _with_means(facts.ladder)
    yield from _without_means(facts.ladder)
    for strength in (0.25, 0.5, 0.75, 0.9):
        yield Trial(f"mean matching by {strength:g}", {"strength": strength}, "means in part")


def _with_means(counts: Iterable[int]) -> Iterable[Trial]:
    for m in counts:
        yield Trial(f"all m={m}", {"n_unfair": m}, "means and second moments")


def _without_means(counts: Iterable[int]) -> Iterable[Trial]:
    for m in counts:
        parameters = {"n_unfair": m, "match_mean": False}
        yield Trial(f"covariance m={m}", parameters, "second moments")


def _streams(facts: Facts) -> Iterable[Trial]:
    for solver in ("sketch", "power"):
        for m in facts.counts or (0,):
            parameters = {"n_unfair": m, "solver": solver}
            yield Trial(f"{solver} m={m}", parameters, f"streaming, {solver}")


def _distances(*factors: float) -> Tries:
    """Try bounds on MMD² that are multiples of the one asked for."""

    def tries(facts: Facts) -> Iterable[Trial]:
        for factor in factors:
            bound = float(f"{factor * facts.max_mmd:.3g}")
            yield Trial(f"MMD² ≤ {bound:g}", {"tol": bound, "n_init": 2}, "MMD² bounded")

    return tries


def _covariances(facts: Facts) -> Iterable[Trial]:
    """Try the published shares of the directions kept."""
    for share in (0.85, 0.5):
        yield Trial(f"covariances, {share:.0%} kept", {"n_kept": share}, "covariances matched")


def _more_covariances(facts: Facts) -> Iterable[Trial]:
    for share in (0.95, 0.7, 0.3):
        if share * facts.n_features >= facts.n_components:
            yield Trial(f"covariances, {share:.0%} kept", {"n_kept": share}, "covariances matched")


METHODS: tuple[Method, ...] = (
    Method(
        "plain-pca", "fairpca.MomentMatchingPCA", "reference",
        "PCA without any constraint",
        once("plain PCA"), fixed={"match_mean": False, "n_unfair": 0}, default=True, nested=True,
    ),
    Method(
        "moment-matching", "fairpca.MomentMatchingPCA", "hide",
        "equal means, and m directions of unequal second moments removed",
        _moments, _more_moments, default=True,
    ),
    Method(
        "streaming", "fairpca.StreamingMomentMatchingPCA", "hide",
        "the same from a stream of rows, in little memory",
        _streams,
    ),
    Method(
        "distribution-matching", "fairpca.DistributionMatchingPCA", "hide",
        "the most variance at a bound on MMD²",
        _distances(1), _distances(100, 30, 10, 3, 0.1),
        default=True, slow=True,
    ),
    Method(
        "covariance-matching", "fairpca.comparison.CovarianceMatchingPCA", "hide",
        "equal means, and the directions whose covariances differ least kept (Kleindessner et al.)",
        _covariances, _more_covariances, default=True,
    ),
    Method(
        "kernel-mean-matching", "fairpca.comparison.KernelMeanMatchingPCA", "hide",
        "equal means in a kernel's feature space (Kleindessner et al.)",
        once("kernel mean matching"), slow=True,
    ),
    Method(
        "convex-matching", "fairpca.comparison.ConvexMatchingPCA", "hide",
        "a semidefinite program that penalizes covariance differences (Olfat & Aswani)",
        several("convex matching", {"convex δ=0": {}, "convex δ=0.1": {"delta": 0.1}}),
        several("convex matching", {f"convex μ={mu:g}": {"mu": mu} for mu in (0.001, 0.003, 0.03)}),
        slow=True,
    ),
    Method(
        "leace", "fairpca.comparison.LEACE", "hide",
        "the least change that hides groups from linear classifiers (Belrose et al.)",
        once("LEACE"), default=True,
    ),
    Method(
        "rlace", "fairpca.comparison.RLACE", "hide",
        "removal of what harms a linear classifier of the groups most (Ravfogel et al. 2022)",
        once("RLACE"), slow=True,
    ),
    Method(
        "inlp", "fairpca.comparison.INLP", "hide",
        "removal of what linear classifiers read, until none reads more (Ravfogel et al. 2020)",
        once("INLP"),
        several("INLP", {f"INLP, n={n}": {"n_iterations": n} for n in (1, 2, 5)}),
        slow=True,
    ),
    Method(
        "multigroup", "fairpca.MultigroupPCA", "balance",
        "each component for all groups at once",
        once("multigroup"), default=True, slow=True, nested=True,
    ),
    Method(
        "worst-group", "fairpca.WorstGroupPCA", "balance",
        "the least loss of the group described worst",
        once("worst group"),
        several("worst group", {
            "least reconstruction loss": {"loss": "reconstruction"},
            "most worst variance": {"loss": "variance"}, "Nash welfare": {"loss": "nash"},
        }),
        default=True, slow=True,
    ),
    Method(
        "max-min-variance", "fairpca.comparison.MaxMinVariancePCA", "balance",
        "the most variance of the group that keeps least (Babu & Stoica)",
        once("max-min variance"), default=True, slow=True,
    ),
    Method(
        "disparity-penalty", "fairpca.comparison.DisparityPenaltyPCA", "balance",
        "two groups' errors made equal, or nearly (Pelegrina & Duarte)",
        several("u-FPCA and c-FPCA", {"u-FPCA": {}, "c-FPCA": {"constrained": True}}), slow=True,
    ),
    Method(
        "pareto", "fairpca.comparison.ParetoPCA", "balance",
        "a point where no group's loss falls without another's rising (Kamani et al.)",
        once("Pareto"), slow=True,
    ),
    Method(
        "bicriteria", "fairpca.comparison.BicriteriaPCA", "balance",
        "the span of rows sampled for all groups (Song et al.)",
        once("bicriteria"), slow=True,
    ),
)  # fmt: skip

PLAIN = METHODS[0]
DEFAULT = tuple(method.name for method in METHODS if method.default)


def method_named(name: str) -> Method:
    """Return the method of that name.

    Raises
    ------
    ValueError
        If there is none.
    """
    for method in METHODS:
        if method.name == name:
            return method
    names = ", ".join(method.name for method in METHODS)
    raise ValueError(f"there is no method {name!r}; there is {names}.")


def chosen(names: Sequence[str]) -> tuple[Method, ...]:
    """Return the methods named, in the list's order, with plain PCA first; ``all`` names every one.

    Raises
    ------
    ValueError
        If there is no method of a name.

    Examples
    --------
    >>> [method.name for method in chosen(["multigroup"])]
    ['plain-pca', 'multigroup']
    """
    if ALL in names:
        return METHODS
    wanted = [PLAIN, *(method_named(name) for name in names)]
    return tuple(method for method in METHODS if method in wanted)
