"""`FairnessTargetCV`: the setting that keeps most variance while unfairness stays below a limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from fairpca.data.choices import CRITERIA, check_choice
from fairpca.data.sampling import group_folds
from fairpca.data.transaction import all_or_nothing, fits_anew
from fairpca.data.warn import warn_caller
from fairpca.estimators.parameters import is_count
from fairpca.model_selection.candidates import METADATA, by_preprocessing, candidate, requests
from fairpca.model_selection.folds import FoldTask, Outcome, judge_fold
from fairpca.model_selection.held_out import Judging
from fairpca.model_selection.results import all_terms, cross_validation_table, tell_about
from fairpca.model_selection.rule import check_limit, check_standard_errors, choose_setting
from fairpca.model_selection.sample import Sample, gather_sample
from fairpca.model_selection.targets import TargetMeasure, check_reachable, find_target

__all__ = ["FairnessTargetCV", "FairnessTargetWarning"]


class FairnessTargetWarning(UserWarning):
    """No setting meets the fairness target; the nearest one is used.

    Examples
    --------
    To stop instead: ``warnings.simplefilter("error", FairnessTargetWarning)``.

    >>> issubclass(FairnessTargetWarning, UserWarning)
    True
    """


def _refitted(name: str) -> Callable[[FairnessTargetCV], bool]:
    def check(self: FairnessTargetCV) -> bool:
        if not self.refit:
            raise AttributeError(
                f"with refit=False there is no best_estimator_ to {name} with: fit the estimator "
                "with best_params_, or use refit=True."
            )
        getattr(getattr(self, "best_estimator_", self.estimator), name)
        return True

    return check


class FairnessTargetCV(MetaEstimatorMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Choose, by cross-validation, the setting that keeps most variance at a fairness target.

    Every setting of a grid is fitted to the training rows of each fold and judged on the held-out
    ones. A setting meets the target when its mean unfairness over folds plus one standard error is
    at most `limit`; of those that do, the one with the largest mean share of held-out variance is
    chosen, and fitted to all rows.

    Settings of one method share what they can: `fairpca.MomentMatchingPCA` summarises the rows of a
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
        - "leakage": the best AUC of three classifiers at telling the group, which learn from the
          training rows; "linear_leakage" ("linear-leakage"): of a linear one;
        - "demographic_parity_difference" ("dp"), "equal_opportunity_difference" ("eop"),
          "equalized_odds_difference" ("eod"): of a classifier of y (these need fairlearn);
        - "worst_group_loss" ("worst-loss"): the share of its own variance that the worst-described
          group loses; "worst_marginal_loss" ("marginal-loss"): what it loses beyond its own best
          components, as such a share.

        Or a function of (fitted estimator, X, y, sensitive_features) of held-out rows to a number
        that is smaller the fairer.
    limit : float, default=0.01
        The largest value allowed.
    standard_errors : float, default=1.0
        How many standard errors the mean must stay below the limit by, widened for few folds as in
        `choose_setting`; 0 for none.
    scoring : callable, default=None
        What to maximise: a function of (fitted estimator, X, y); None is the variance kept.
    cv : int, splitter or iterable of (train, test), default=5
        An integer makes shuffled folds with every group, and every label in it, in proportion.
    refit : bool, default=True
        Fit the chosen setting to all rows.
    bandwidth : "median" or float, default="median"
        σ of the kernel of MMD². "median" is that of the training rows' principal components, as
        many as the setting has: one number for all settings of a fold that keep as many.
    classifier : str or classifier, default="kernel_svm"
        Of the label; see `fairpca.metrics.downstream`.
    pos_label : object, default=None
        The favourable label; the estimator's, or the last in sorted order, by default.
    criterion : str, default=None
        Which rows MMD² and leakage compare, as of `fairpca.MomentMatchingPCA`: all, those of
        positive label ("equal_opportunity"), or those of each label by themselves
        ("equalized_odds": MMD² added up over labels, leakage averaged). None is the estimator's own
        criterion, where it has one. The other targets say by themselves what they compare.
    max_samples : int, default=3000
        The most held-out rows to measure MMD² and leakage on, and training rows for classifiers;
        samples hold the groups in proportion.
    n_jobs : int, default=None
        Folds judged at once, as in scikit-learn. The answer does not depend on it.
    random_state : int, default=None
        Of folds, samples and classifiers; None is a fixed seed.

    Attributes
    ----------
    best_params_ : dict
        The chosen setting; the one nearest to the target where none meets it, which `target_met_`
        says and a `FairnessTargetWarning` told.
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
        of the group, pair of groups or classifier that decides, see Notes);
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
    **What is promised.** With one standard error, unfairness on new rows is within the limit for at
    least some 84 % of samples, of a setting that meets the target by a hair. Losses of groups,
    differences between two groups' rates and scores of classifiers are averaged over folds one by
    one, and all of them must stay within the limit with their standard errors: the largest of them
    in each fold would be too large. Classifiers of the group learn from the training rows and one
    half of the held-out ones and are judged on the other half, both ways round: on training rows
    alone, matching leaves nothing to learn, whatever it leaves on new rows. Folds vary together in
    MMD² and leakage, so their standard error is √2 times what the folds' spread says.

    **What is not.** The best of many settings looks better than it is: with the limit met by a
    hair, measure once more on rows that were not used here. And a classifier with many more rows
    than there are here may tell the group better.

    A group with fewer than two rows in a fold leaves unfairness undefined there: the other folds
    decide, and a warning tells. A setting that cannot be fitted in some fold is not chosen.

    `sample_weight` goes to the fits, the variance kept, the losses of groups, MMD² and leakage.
    Classifiers of y take every row of positive weight alike. Rows without a group label
    (``missing_groups="unlabelled"``) count for the variance and for no measure of their attribute.

    With metadata routing, the last step has to ask for the groups:
    ``MomentMatchingPCA().set_fit_request(sensitive_features=True)``. Without it, the last step is
    given them, if its `fit` takes any.

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
        """Judge every setting by cross-validation, choose one, and fit it to all rows.

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
            If X is a Dask collection, or the estimator has nothing to judge it by.

        Warns
        -----
        FairnessTargetWarning
            If no setting meets the target.
        UserWarning
            If settings could not be fitted, or unfairness was undefined, in some folds.
        """
        how, settings = self._check_parameters(y)
        final = candidate(self.estimator, {}).final
        sample = gather_sample(
            *(X, y, sensitive_features, sample_weight), final, type(self).__name__
        )
        routed = self._routed_fit(sample, how)
        splits = self._splits(sample)
        outcomes = self._judge(sample, how, settings, splits)
        kept = np.array([[o.kept for o in row] for row in outcomes])
        self.problems_ = tell_about(outcomes, type(self).__name__)
        choice = choose_setting(
            kept,
            all_terms(outcomes),
            float(self.limit),
            standard_errors=float(self.standard_errors),
            inflation=getattr(how.target, "inflation", 1.0),
        )
        self.n_splits_ = len(splits)
        self.cv_results_ = cross_validation_table(settings, outcomes, choice)
        self.best_index_, self.target_met_ = choice.index, choice.met
        self.best_params_ = settings[choice.index]
        self.best_score_ = float(choice.kept[choice.index])
        self.best_unfairness_ = float(choice.unfairness[choice.index])
        self._warn_unless_met(choice)
        if self.refit:
            start = time.perf_counter()
            best = clone(self.estimator).set_params(**clone(self.best_params_, safe=False))
            self.best_estimator_ = best.fit(sample.X, sample.y, **routed)
            self.refit_time_ = time.perf_counter() - start
        return self

    @all_or_nothing
    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Fit, then transform the same rows; parameters as in `fit`.

        Returns
        -------
        ndarray or frame of shape (n_samples, n_components)
        """
        fitted = self.fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return fitted.transform(X)

    @available_if(_refitted("transform"))  # type: ignore[untyped-decorator]
    def transform(self, X: Any) -> Any:
        """Project rows with `best_estimator_`; groups are not needed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray or frame of shape (n_samples, n_components)
        """
        check_is_fitted(self)
        return self.best_estimator_.transform(X)

    @available_if(_refitted("inverse_transform"))  # type: ignore[untyped-decorator]
    def inverse_transform(self, Z: Any) -> Any:
        """Return the points that projected rows stand for, by `best_estimator_`.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_components)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.best_estimator_.inverse_transform(Z)

    @available_if(_refitted("get_feature_names_out"))  # type: ignore[untyped-decorator]
    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the output columns, by `best_estimator_`."""
        check_is_fitted(self)
        names: NDArray[Any] = self.best_estimator_.get_feature_names_out(input_features)
        return names

    @property
    def n_features_in_(self) -> int:
        """Columns seen in `fit`."""
        try:
            check_is_fitted(self)
            return int(self.best_estimator_.n_features_in_)
        except ValueError as error:  # NotFittedError is one
            raise AttributeError(
                f"{type(self).__name__} has no attribute 'n_features_in_' before fit."
            ) from error

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Their names, where X had them."""
        names: NDArray[Any] = self.best_estimator_.feature_names_in_
        return names

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what `fit` needs, and what it hands on to the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=mapping)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.transformer_tags = inner.transformer_tags
        tags.array_api_support = False
        return tags

    def _check_parameters(self, y: Any) -> tuple[Judging, list[dict[str, Any]]]:
        check_limit(self.limit)
        check_standard_errors(self.standard_errors)
        target: Any = self.target
        if not callable(target):
            target = find_target(target)
            check_reachable(target, self.limit)
        if isinstance(target, TargetMeasure) and target.needs_label and y is None:
            raise ValueError(f"target={target.name!r} compares predictions of a label: pass y.")
        final_step = candidate(self.estimator, {}).final
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
        for setting in settings:
            candidate(self.estimator, setting)  # refuses unknown names before anything is computed
        front, final = requests(self.estimator)
        seed = 0 if self.random_state is None else int(self.random_state)
        how = Judging(
            target, self.scoring, self.bandwidth, self.classifier, pos_label,
            int(self.max_samples), seed, criterion, front, final,
        )  # fmt: skip
        return how, settings

    def _routed_fit(self, sample: Sample, how: Judging) -> dict[str, Any]:
        """Return what `estimator.fit` is given with all rows."""
        if _routing_enabled():
            known = sample.metadata(frozenset(METADATA))
            routed: dict[str, Any] = process_routing(self, "fit", **known).estimator.fit
            return routed
        known = sample.metadata(how.final_takes)
        if isinstance(self.estimator, Pipeline):
            return {f"{self.estimator.steps[-1][0]}__{k}": v for k, v in known.items()}
        return known

    def _splits(self, sample: Sample) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        n = sample.groups.n_samples
        if is_count(self.cv):
            found: Iterable[Any] = group_folds(
                sample.groups, sample.y, int(self.cv), self.random_state
            )
        else:
            found = check_cv(self.cv).split(np.zeros((n, 1)), sample.y)
        splits = [(np.arange(n)[train], np.arange(n)[test]) for train, test in found]
        empty = [i for i, part in enumerate(splits) if not part[0].size or not part[1].size]
        if empty or not splits:
            raise ValueError("cv has folds without rows." if splits else "cv has no folds.")
        return splits

    def _judge(
        self, sample: Sample, how: Judging, settings: list[dict[str, Any]], splits: list[Any]
    ) -> list[list[Outcome]]:
        """Return outcomes by setting and fold. Equal preprocessing is fitted once a fold."""
        tasks = [
            FoldTask(front, found, train, test, fold)
            for fold, (train, test) in enumerate(splits)
            for front, found in by_preprocessing(self.estimator, settings)
        ]
        judged = Parallel(n_jobs=self.n_jobs)(
            delayed(judge_fold)(task, sample, how) for task in tasks
        )
        outcomes = sorted((o for part in judged for o in part), key=lambda o: (o.setting, o.fold))
        width = len(splits)
        return [outcomes[i * width : (i + 1) * width] for i in range(len(settings))]

    def _warn_unless_met(self, choice: Any) -> None:
        if choice.met:
            return
        measure: Any = self.target if callable(self.target) else find_target(self.target)
        name = getattr(measure, "name", getattr(measure, "__name__", "unfairness"))
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
