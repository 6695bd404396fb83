"""Sufficient numbers of rows for the fair noisy power method, up to one stated constant.

Lee et al. (2023): Eq. (9) and (11), and Theorem 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt

from fairpca.estimators.parameters import check_positive
from fairpca.theory._constants import ProblemConstants

__all__ = ["SampleComplexity", "pca_block_size", "sample_complexity", "unfair_block_size"]


@dataclass(frozen=True)
class SampleComplexity:
    """Rows that suffice, for each stage; infinite where there is no eigengap.

    Parameters
    ----------
    unfair_rows : float
        N₁, for the unfair subspace (Algorithm 1).
    component_rows : float
        N₂, for the components (Algorithm 2).
    eta : float
        η_k, to which the unfair subspace must be known.
    alpha : float
        α.
    """

    unfair_rows: float
    component_rows: float
    eta: float
    alpha: float

    @property
    def total(self) -> float:
        """N₁ + N₂."""
        return self.unfair_rows + self.component_rows


def unfair_block_size(
    constants: ProblemConstants, *, epsilon: float, delta: float, constant: float = 1.0
) -> float:
    """Return b of Eq. (9), rows of a block of stage 1.

    b = c [ 𝒱/(Δ_{m,ν}² p_min) (dm/δ² log(m/δ) + 1/ε² log(d/δ)) + ℳ²/(𝒱 p_min) log(d/δ) ]

    Parameters
    ----------
    constants : ProblemConstants
        The problem.
    epsilon : float
        Accuracy of the subspace, in (0, 1).
    delta : float
        Probability of failure, in (0, 1).
    constant : float
        c, which the paper leaves open.

    Examples
    --------
    >>> from dataclasses import replace
    >>> constants = ProblemConstants(
    ...     10, 1, 1, 1.0, 1.0, 2.0, 4.0, 1.0, 0.5, 0.2, (1.0,) + (0.5,) * 9, (1.0,) + (0.5,) * 9
    ... )
    >>> half = replace(constants, smallest_share=0.1)
    >>> b, twice = (unfair_block_size(c, epsilon=0.1, delta=0.1) for c in (constants, half))
    >>> round(twice / b, 12)
    2.0
    """
    _check(constant, epsilon=epsilon, delta=delta)
    c = constants
    if c.unfair_gap <= 0:
        return inf
    d, m, p = c.n_features, c.n_unfair, c.smallest_share
    noise = _accuracy(d, m, epsilon, delta) * c.variance / (c.unfair_gap**2 * p)
    return constant * (noise + _ratio(c.deviation**2, c.variance * p) * log(d / delta))


def pca_block_size(
    constants: ProblemConstants, *, epsilon: float, delta: float, constant: float = 1.0
) -> float:
    """Return 𝓑 of Eq. (11), rows of a block of stage 2.

    𝓑 = c [ (𝒱+V²)/Δ_{k,κ}² (dk/δ² log(k/δ) + 1/ε² log(d/δ)) + ℳ²/(𝒱+V²) log(d/δ) ]

    Parameters
    ----------
    constants, epsilon, delta, constant
        As of `unfair_block_size`; epsilon is the accuracy of the components.

    Examples
    --------
    >>> constants = ProblemConstants(
    ...     10, 1, 1, 1.0, 1.0, 2.0, 4.0, 1.0, 0.5, 0.2, (1.0,) + (0.5,) * 9, (1.0,) + (0.5,) * 9
    ... )
    >>> half, tenth = (pca_block_size(constants, epsilon=e, delta=0.1) for e in (0.5, 0.1))
    >>> half < tenth
    True
    """
    _check(constant, epsilon=epsilon, delta=delta)
    c = constants
    if c.component_gap <= 0:
        return inf
    d, k, spread = c.n_features, c.n_components, c.variance + c.second_moment**2
    noise = _accuracy(d, k, epsilon, delta) * spread / c.component_gap**2
    return constant * (noise + _ratio(c.deviation**2, spread) * log(d / delta))


def sample_complexity(
    constants: ProblemConstants,
    *,
    epsilon_optimality: float,
    epsilon_fairness: float,
    delta: float,
    constant: float = 1.0,
) -> SampleComplexity:
    """Return N₁ and N₂ of Theorem 1, without the logarithms that its Ω̃ hides.

    Parameters
    ----------
    constants : ProblemConstants
        The problem.
    epsilon_optimality : float
        ε_o, variance that may be lost, squared units of X.
    epsilon_fairness : float
        ε_f, ‖UUᵀV‖₂ that is allowed, in (0, 1).
    delta : float
        Probability of failure, in (0, 1).
    constant : float
        Multiplies both N₁ and N₂; η_k is taken with a constant of one.

    Notes
    -----
    The numbers serve to compare problems and settings, not to plan how many rows to collect: the
    bound is sufficient, not necessary, and `learning_curve` usually shows far fewer.

    Examples
    --------
    >>> constants = ProblemConstants(
    ...     10, 1, 1, 1.0, 1.0, 2.0, 4.0, 1.0, 0.5, 0.2, (1.0,) + (0.5,) * 9, (1.0,) + (0.5,) * 9
    ... )
    >>> bound = sample_complexity(
    ...     constants, epsilon_optimality=0.1, epsilon_fairness=0.1, delta=0.1
    ... )
    >>> bound.alpha, bound.total == bound.unfair_rows + bound.component_rows
    (5.0, True)
    """
    _check(constant, epsilon_fairness=epsilon_fairness, delta=delta)
    check_positive("epsilon_optimality", epsilon_optimality)
    c = constants
    d, k, m, V = c.n_features, c.n_components, c.n_unfair, c.second_moment
    if c.unfair_gap <= 0 or c.component_gap <= 0:
        return SampleComplexity(inf, inf, 0.0, inf)
    eta = min(
        epsilon_fairness,
        c.component_gap / (k * V**2) * epsilon_optimality,
        c.component_gap / (V * sqrt(d * k)) * delta,
    )
    alpha, means = 1.0, 0.0
    if c.residual_gap > 0:
        alpha += (c.mean_gap / c.residual_gap) ** 2
        means = _ratio(c.sub_gaussian**2, c.smallest_share * c.residual_gap**2 * eta**2)
    unfair = c.variance / c.unfair_gap**3 * (_ratio(d * m, delta**2) + _ratio(alpha, eta**2))
    unfair += _ratio(c.deviation**2, c.variance * c.unfair_gap)
    spread = c.variance + V**2
    components = spread / c.component_gap**3
    share = k * V / epsilon_optimality  # squared by a product: ** raises an error on overflow
    components *= _ratio(d * k, delta**2) + share * share
    components += _ratio(c.deviation**2, c.component_gap * spread)
    return SampleComplexity(
        constant * (c.unfair_value / c.smallest_share * unfair + means),
        constant * c.component_value * components,
        eta,
        alpha,
    )


def _accuracy(d: int, columns: int, epsilon: float, delta: float) -> float:
    start = _ratio(d * columns * log(columns / delta), delta**2)
    return start + _ratio(log(d / delta), epsilon**2)


def _ratio(above: float, below: float) -> float:
    """Return above / below: 0 if `above` is 0, else infinite if `below` is 0."""
    if above == 0:
        return 0.0
    return above / below if below else inf


def _check(constant: float, **values: float) -> None:
    check_positive("constant", constant)
    for name, value in values.items():
        check_positive(name, value)
        if not value < 1:
            raise ValueError(f"{name} must be in (0, 1); got {value!r}.")
