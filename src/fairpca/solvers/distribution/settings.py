"""The constants of the search for the most variance at a bounded MMD²."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SearchSettings:
    """Constants of the search; a user sets none of them.

    Variances are shares of the total variance, MMD² and the bound `tol` have no unit, and λ is the
    multiplier of the constraint: the variance share given up per unit of MMD².
    """

    # Steps of one run (`local_search`)
    inside: float = 1e-3
    """Share of `tol` that a step leaves unused, so that rounding does not make the answer
    infeasible. Larger: safer, with less variance."""
    inside_last: float = 2e-5
    """The least that `inside` is lowered to in the last steps. Larger: the same as for `inside`."""
    last_gain: float = 1e-5
    """Predicted gain (variance share) below which a step counts as one of the last, for `inside`.
    Larger: steps aim close to the bound earlier, and more of them overshoot it."""
    shrink: float = 0.2
    """Share of its value to which one step may lower MMD². Larger: slower, safer approach."""
    growth: float = 3.0
    """Largest factor by which λ grows in one step. Larger: feasible sooner, with less variance."""
    exhausted: float = 0.03
    """λ grows once the model promises a gain below this share of λ·MMD². Larger: λ grows earlier.
    Waiting lets MMD² fall by orders of magnitude at a fraction of the variance that haste costs."""
    near: float = 2.0
    """Multiple of `tol` within which a point is near the bound: there the model includes all second
    derivatives of MMD². Larger: more of the costly models."""
    growth_near: float = 2.0
    """`growth` near the bound. Larger: λ far beyond the last one is tried."""
    exhausted_near: float = 0.3
    """`exhausted` near the bound."""
    growth_hasty: float = 2.0
    """Factor by which λ grows in every step of a hasty run, and may at most fall in any step.
    Larger: feasible sooner, with less variance."""
    free_damping: float = 1.0
    """Damping above which a small predicted gain does not count as "no gain left". Larger: runs end
    earlier, perhaps on a damped step that could not show the gain."""
    settled: float = 1e-7
    """Predicted gain (variance share) that counts as none. Larger: runs end earlier."""
    most_rejected: int = 16
    """Trial steps from one point before a run ends. Larger: more evaluations at the end."""
    most_nonconvex: int = 8
    """Damping attempts on a non-convex model before the residual of MMD² is dropped from it.
    Larger: better models, more factorizations."""
    most_idle: int = 20
    """Consecutive feasible steps without a gain of `idle_gain` that end a run (it may alternate
    within the slack under the bound and never settle). Larger: more evaluations."""
    idle_gain: float = 1e-7
    """Variance share that counts as a gain for `most_idle`. Larger: runs end earlier."""
    most_stuck: int = 8
    """Consecutive steps that do not lower the least MMD² by 1 % and end an infeasible run. Larger:
    more evaluations where nothing feasible exists."""
    reused: int = 3
    """Steps that share one set of second derivatives, which cost ten times a value and gradient.
    Larger: cheaper steps that predict less well."""
    reused_from: int = 50
    """Unknowns k(d − k) from which second derivatives are reused. Larger: more exact steps."""
    unknowns: int = 1000
    """About the most unknowns of one step (at most twice as many, where k > 15). With more, a step
    takes in a part of the complement: the gradients, the last subspace and the leading axes.
    Larger: better steps, whose cost grows with the cube."""
    good_ratio: tuple[float, float] = (0.3, 1.7)
    """Actual over predicted gain within which second derivatives are reused. Wider: reused more."""

    # Several starts (`search`)
    trial_steps: int = 60
    """Most steps of a trial from one start. Larger: better trials, fewer of them affordable."""
    rough: float = 1e-6
    """`settled` of a trial. Larger: cheaper trials that are ranked less reliably."""
    polished: int = 2
    """Leading trials that are continued to the end. Larger: more evaluations."""
    same: float = 1e-5
    """Difference in variance share below which two answers count as the same optimum. Larger: the
    search ends earlier."""
    cheaper: float = 30.0
    """Factor by which λ is lowered after a random move, so that the run may choose another way to
    feasibility. Larger: longer runs that reach more places."""
    hopeful: float = 0.9
    """Share of the best variance from which the run after a move is continued. Larger: fewer."""

    # Subspaces of every rank (`ranks`)
    worthwhile: float = 0.9
    """Share of the best rank's variance above which a neighboring rank is searched. Larger: fewer
    ranks are searched."""
    agreeing: int = 3
    """Starts of full rank that are tried, and have to agree, where other ranks compete."""
    looks: int = 10
    """A first look at r components makes max(1, looks // r) runs. Larger: more evaluations."""
    declines: int = 2
    """Consecutive ranks worse than the best that end the first looks. Larger: more looks."""

    # Starts, budgets and the surrogate (`starts`, `match`)
    n_unfair: tuple[int, ...] = (2, 5, 10, 20)
    """Second-moment directions removed for the moment-matching starts, one start for each."""
    affordable_work: float = 1e9
    """n²·k·d of one evaluation at which n_init="auto" makes a single random start. Larger: more."""
    most_random: int = 20
    """Most random starts of n_init="auto"."""
    evaluations: int = 1600
    """Evaluations after which n_init="auto" makes no more random moves. Larger: more variance."""
    evaluations_per_start: int = 200
    """The same for each random start that was asked for."""
    steps_per_iteration: int = 3
    """Newton steps that `max_iter` allows for each iteration."""
    exact_up_to: int = 4096
    """Distinct rows up to which approximation="auto" computes second derivatives exactly."""
    n_frequencies: int = 1024
    """Random features of the surrogate, a power of two. Larger: more exact, and slower."""
    single_down_to: float = 1e-4
    """`tol` from which float32 tiles are exact enough: they err by about 1e-9."""


DEFAULT_SETTINGS = SearchSettings()
"""What `match` uses."""
