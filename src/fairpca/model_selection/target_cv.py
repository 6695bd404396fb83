"""`FairnessTargetCV`: the setting that keeps most variance while unfairness stays below a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from fairpca.data.choices import CRITERIA, check_choice
from fairpca.data.transaction import fits_anew
from fairpca.data.warn import warn_caller
from fairpca.estimators.parameters import is_count
from fairpca.model_selection.candidates import METADATA, requests, taken_apart
from fairpca.model_selection.folds import measure_settings
from fairpca.model_selection.refitted import RefittedSearch
from fairpca.model_selection.results import all_terms, cross_validation_table, warn_of_problems
from fairpca.model_selection.rule import (
    SettingChoice,
    check_limit,
    check_standard_errors,
    choose_setting,
)
from fairpca.model_selection.sample import gather_sample, split_rows
from fairpca.model_selection.targets import (
    MeasureOptions,
    TargetMeasure,
    check_reachable,
    find_target,
)


class FairnessTargetWarning(UserWarning):
    """No setting meets the fairness target; the nearest one is used.

    Examples
    --------
    To stop instead: ``warnings.simplefilter("error", FairnessTargetWarning)``.

    >>> issubclass(FairnessTargetWarning, UserWarning)
    True
    """


class FairnessTargetCV(RefittedSearch):
    """Choose, by cross-validation, the setting that keeps most variance at a fairness target.

    Every setting of a grid is fitted to the training rows of each fold and measured on the held-out
    ones. A setting meets the target if its mean unfairness over folds plus one standard error is at
    most `limit`; of those that do, the one with the largest mean share of held-out variance is
    chosen, and fitted to all rows.

    Settings of one method share what they can: `fairpca.MomentMatchingPCA` summarizes the rows of a
    fold once and reads smaller `n_unfair` off the largest, `fairpca.DistributionMatchingPCA` starts
    each `tol` from the answer for a looser one, and `fairpca.MultigroupPCA` takes the first
    components of the largest fit.

    Parameters
    ----------
    estimator : transformer
        One of this library's, or another with `components_`; or a `sklearn.pipeline.Pipeline` that
        ends in one. Steps before it are fitted within folds, to training rows only.
    param_grid : dict or list of dicts
        Settings to try, as of `sklearn.model_selection.GridSearchCV`, such as
        ``{"n_unfair": range(10)}``; in a pipeline with the step's name,
        ``{"momentmatchingpca__n_unfair": [0, 1, 2]}``.
    target : str or callable, default="mmd_squared"
        What to limit, measured on held-out rows (long names may be shortened as in brackets):

        - "mmd_squared" ("mmd"): MMD² between groups, unbiased;
        - "leakage": the best AUC of three classifiers of the group, which learn from the training
          rows and half of the held-out ones; "linear_leakage" ("linear-leakage"): of a linear one;
        - "demographic_parity_difference" ("dp"), "equal_opportunity_difference" ("eop"),
          "equalized_odds_difference" ("eod"): of a classifier of y (these need fairlearn);
        - "worst_group_loss" ("worst-loss"): the share of its own variance that the worst-described
          group loses; "worst_marginal_loss" ("marginal-loss"): what it loses beyond its own best
          components, as such a share.

        Or a function that takes (fitted estimator, X, y, sensitive_features) of held-out rows and
        returns a number: the smaller, the fairer.
    limit : float, default=0.01
        The largest value allowed.
    standard_errors : float, default=1.0
        The mean plus this many standard errors must not exceed the limit; with few folds they are
        widened as in `choose_setting`. With 0, the mean itself is compared.
    scoring : callable, default=None
        What to maximize: a function of (fitted estimator, X, y); None is the variance kept.
    cv : int, splitter or iterable of (train, test), default=5
        An integer makes shuffled folds with every group, and every label in it, in proportion.
    refit : bool, default=True
        Fit the chosen setting to all rows.
    bandwidth : "median" or float, default="median"
        σ of the kernel of MMD². "median" is the median distance of the training rows under plain
        PCA with as many components: the same for all settings of a fold with that many.
    classifier : str or classifier, default="kernel_svm"
        Of the label; see `fairpca.metrics.downstream`.
    pos_label : object, default=None
        The favorable label; the estimator's, or the last in sorted order, by default.
    criterion : str, default=None
        Which rows MMD² and leakage compare, as in `fairpca.MomentMatchingPCA`: all, those of
        positive label ("equal_opportunity"), or those of each label separately ("equalized_odds":
        MMD² is added up over labels, leakage averaged). None is the estimator's own criterion, if
        it has one. The other targets define themselves what they compare.
    max_samples : int, default=3000
        The most held-out rows to measure MMD² and leakage on, and training rows for classifiers;
        samples hold the groups in proportion.
    n_jobs : int, default=None
        Folds measured at once, as in scikit-learn. The answer does not depend on it.
    random_state : int, default=None
        Of folds, samples and classifiers; None is a fixed seed.

    Attributes
    ----------
    best_params_ : dict
        The chosen setting. Where none meets the target it is the nearest one: `target_met_` is then
        False, and `fit` gives a `FairnessTargetWarning`.
    target_met_ : bool
        Whether it meets the target.
    best_score_ : float
        Its mean share of held-out variance kept.
    best_unfairness_ : float
        Its mean unfairness.
    best_index_ : int
        Its position in `cv_results_`.
    best_estimator_ : estimator
        Fitted to all rows. Only with ``refit=True``.
    cv_results_ : dict of str to ndarray of shape (n_settings,)
        ``params``, ``param_*``; for ``variance`` and ``unfairness``: ``split*_test_*``,
        ``mean_test_*`` and ``std_test_*`` (ddof 0, as in scikit-learn; the mean unfairness is that
        of the group, pair of groups or classifier that is worst, see Notes);
        ``se_test_unfairness`` and ``upper_test_unfairness``, what is compared with the limit;
        ``n_measured``, the folds in which unfairness was defined; ``meets_target``;
        ``rank_test_score``; times in seconds.
    problems_ : list of str
        What went wrong in some folds, such as a group that is absent from one.
    n_splits_ : int
        Folds.
    refit_time_ : float
        Seconds. Only with ``refit=True``.
    n_features_in_, feature_names_in_
        Of `best_estimator_`.

    Notes
    -----
    **What is promised.** With one standard error, a setting that barely meets the target is within
    the limit on new rows in about 84 % of samples or more. Losses of groups, differences between
    two groups' rates and scores of classifiers are averaged over folds one by one, and each mean
    with its standard error must stay within the limit. (The mean of each fold's largest would be
    too large.) Classifiers of the group learn from the training rows and one half of the held-out
    ones and are tested on the other half, then with the halves exchanged: in training rows alone,
    matching leaves nothing to learn, whatever it leaves in new rows. MMD² and leakage vary together
    over folds, so their standard error is √2 times the one computed from the folds' spread.

    **What is not promised.** The best of many settings looks better than it is: if the limit is
    barely met, measure once more on rows that were not used here. And a classifier that learns from
    many more rows may predict the group better.

    If a group has fewer than two rows in a fold, unfairness is undefined there: the other folds
    decide, and a warning says so. A setting that cannot be fitted in some fold is not chosen.

    `sample_weight` goes to the fits, the variance kept, the losses of groups, MMD² and leakage.
    Classifiers of y take every row of positive weight alike. Rows without a group label
    (``missing_groups="unlabelled"``) count for the variance and for no measure of their attribute.

    With metadata routing, the last step has to request the groups:
    ``MomentMatchingPCA().set_fit_request(sensitive_features=True)``. Without it, they are passed to
    the last step if its `fit` takes them.

    References
    ----------
    .. [1] L. Breiman, J. H. Friedman, R. A. Olshen, C. J. Stone (1984). Classification and
       Regression Trees. Wadsworth. Section 3.4.3 (the 1 SE rule).

    Examples
    --------
    The groups differ in mean along the first axis and in spread along the second:

    >>> import numpy as np
    >>> from fairpca import MomentMatchingPCA
    >>> from fairpca.model_selection import FairnessTargetCV
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 200)
    >>> X = rng.normal(size=(400, 6)) * [3, 3, 2, 2, 1, 1]
    >>> X[:, 0] += 4 * (group == "a")
    >>> X[:, 1] *= 1 + 2 * (group == "a")
    >>> search = FairnessTargetCV(
    ...     MomentMatchingPCA(2), {"n_unfair": [0, 1, 2, 3]}, target="mmd_squared", limit=0.02
    ... ).fit(X, sensitive_features=group)
    >>> search.best_params_, search.target_met_
    ({'n_unfair': 1}, True)
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        target: str | Callable[..., float] = "mmd_squared",
        limit: float = 0.01,
        standard_errors: float = 1.0,
        scoring: Callable[..., float] | None = None,
        cv: Any = 5,
        refit: bool = True,
        bandwidth: Any = "median",
        classifier: Any = "kernel_svm",
        pos_label: Any = None,
        criterion: str | None = None,
        max_samples: int = 3000,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.target = target
        self.limit = limit
        self.standard_errors = standard_errors
        self.scoring = scoring
        self.cv = cv
        self.refit = refit
        self.bandwidth = bandwidth
        self.classifier = classifier
        self.pos_label = pos_label
        self.criterion = criterion
        self.max_samples = max_samples
        self.n_jobs = n_jobs
        self.random_state = random_state

    @fits_anew
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Measure every setting by cross-validation, choose one, and fit it to all rows.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            As the estimator takes it; a pipeline may take frames with text.
        y : array-like of shape (n_samples,), default=None
            Labels, for targets and estimators that need them; folds hold them in proportion.
        sensitive_features : array-like, Series or frame of shape (n_samples,) or (n_samples, r)
            Each row's group, per attribute.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or the input is unsuitable, or no setting could be fitted and measured.
        TypeError
            If X is a Dask collection, or the estimator offers nothing to measure.

        Warns
        -----
        FairnessTargetWarning
            If no setting meets the target.
        UserWarning
            If settings could not be fitted, or unfairness was undefined, in some folds.
        """
        options, settings = self._check_parameters(y)
        _, last = taken_apart(self.estimator, {})
        sample = gather_sample(
            *(X, y, sensitive_features, sample_weight), last.model, type(self).__name__
        )
        routed = self._routed(sample.metadata(frozenset(METADATA)), options.final_takes)
        splits = split_rows(sample, self.cv, self.random_state)
        outcomes = measure_settings(self.estimator, settings, splits, sample, options, self.n_jobs)
        kept = np.array([[o.kept for o in row] for row in outcomes])
        self.problems_ = warn_of_problems(outcomes, type(self).__name__)
        choice = choose_setting(
            kept,
            all_terms(outcomes),
            float(self.limit),
            standard_errors=float(self.standard_errors),
            inflation=getattr(options.target, "inflation", 1.0),
        )
        self.n_splits_ = len(splits)
        self.cv_results_ = cross_validation_table(settings, outcomes, choice)
        self.best_index_, self.target_met_ = choice.index, choice.met
        self.best_params_ = settings[choice.index]
        self.best_score_ = float(choice.kept[choice.index])
        self.best_unfairness_ = float(choice.unfairness[choice.index])
        if not choice.met:
            self._warn_of_nearest(choice, options.target)
        if self.refit:
            start = time.perf_counter()
            best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
            self.best_estimator_ = best.fit(sample.X, sample.y, **routed)
            self.refit_time_ = time.perf_counter() - start
        return self

    def _check_parameters(self, y: Any) -> tuple[MeasureOptions, list[dict[str, Any]]]:
        check_limit(self.limit)
        check_standard_errors(self.standard_errors)
        target: Any = self.target
        if not callable(target):
            target = find_target(target)
            check_reachable(target, self.limit)
        if getattr(target, "needs_label", False) and y is None:
            raise ValueError(f"target={target.name!r} compares predictions of a label: pass y.")
        _, (_, _, final_step) = taken_apart(self.estimator, {})
        criterion = self.criterion or getattr(final_step, "criterion", None) or CRITERIA[0]
        check_choice("criterion", criterion, CRITERIA)
        if getattr(target, "by_criterion", False) and criterion != CRITERIA[0] and y is None:
            raise ValueError(f"criterion={criterion!r} compares rows of equal label: pass y.")
        pos_label = self.pos_label
        if pos_label is None:
            pos_label = getattr(final_step, "pos_label", None)
        if not is_count(self.max_samples) or self.max_samples < 10:
            raise ValueError(
                f"max_samples must be a whole number of at least 10; got {self.max_samples!r}."
            )
        if self.random_state is not None and not is_count(self.random_state):
            raise ValueError(f"random_state must be an integer or None; got {self.random_state!r}.")
        if is_count(self.cv) and self.cv < 2:
            raise ValueError(f"cv must be at least 2 folds; got {self.cv}.")
        settings = list(ParameterGrid(self.param_grid))
        if not settings:
            raise ValueError(
                f"param_grid={self.param_grid!r} holds no setting to try: give a dict of parameter "
                "names and values."
            )
        for setting in settings:  # unknown names are refused before anything is computed
            taken_apart(self.estimator, setting)
        front, final = requests(self.estimator)
        options = MeasureOptions(
            target=target,
            scoring=self.scoring,
            bandwidth=self.bandwidth,
            classifier=self.classifier,
            pos_label=pos_label,
            seed=int(self.random_state or 0),
            max_samples=int(self.max_samples),
            criterion=criterion,
            front_takes=front,
            final_takes=final,
        )
        return options, settings

    def _warn_of_nearest(
        self, choice: SettingChoice, target: TargetMeasure | Callable[..., float]
    ) -> None:
        name = getattr(target, "name", getattr(target, "__name__", "unfairness"))
        i = choice.index
        warn_caller(
            f"{type(self).__name__}: no setting meets {name} <= {float(self.limit):g} by "
            f"{float(self.standard_errors):g} standard errors over {self.n_splits_} folds. The "
            f"nearest is {self.best_params_}, with {choice.unfairness[i]:.4g} ± "
            f"{choice.standard_error[i]:.2g} and a mean score of {choice.kept[i]:.4g}; it is what "
            "best_params_ holds, and target_met_ is False. Try stricter settings, fewer "
            "components or another method, or raise limit.",
            FairnessTargetWarning,
        )
