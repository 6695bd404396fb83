"""`StreamingMomentMatchingPCA`: null-it-out fair PCA of streams (Lee et al. 2023)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, Self

from fairpca.data.dask_input import is_dask
from fairpca.data.files.row_blocks import as_row_source
from fairpca.data.row_numbers import rows_from
from fairpca.data.transaction import all_or_nothing
from fairpca.estimators.families.stream_base import StreamEstimator
from fairpca.estimators.families.stream_fit import fit_stream
from fairpca.summaries.base import GroupSummary
from fairpca.summaries.partitions import Tally

_BLOCKS = 10


class StreamingMomentMatchingPCA(StreamEstimator):
    """Moment-matching PCA of data that come in batches, or do not fit into memory.

    The same constrained PCA as :class:`MomentMatchingPCA` — the most variance among directions
    orthogonal to the groups' mean differences and the `n_unfair` leading eigenvectors of their
    second-moment differences — from one pass over the rows, three ways:

    ========== ======================= ============================================ ==============
    solver     memory                  answer                                       available
    ========== ======================= ============================================ ==============
    "moments"  O(G d²), G cells        exact                                        at any moment
    "sketch"   O(G ℓ d)                near the exact one, from the same rows       at any moment
    "power"    O(d (k + m))            the paper's: each power step has one block   after 2 stages
    ========== ======================= ============================================ ==============

    "auto" takes exact moments wherever they fit `memory_limit`, else the sketch.

    Parameters
    ----------
    n_components : int, float or None, default=2
        Components to keep; see :class:`MomentMatchingPCA`. "power" needs a whole number.
    n_unfair : int or dict of str to int, default=0
        m, eigenvectors of the second-moment difference to remove per comparison of groups.
    match_mean : bool, default=True
        Remove the mean differences.
    difference : {"second_moment", "covariance"}, default="second_moment"
        M₁ − M₀ about the common mean, or Σ₁ − Σ₀.
    criterion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        Compare groups over all rows, over rows of positive label, or within each label.
    block_size : int, default=None
        "power": b, rows of a block of stage 1. None: such that `fit` uses all rows, with
        `partial_fit` the larger of 1000 and 2d.
    n_unfair_blocks : int, default=10
        "power": T, blocks (steps) of stage 1.
    pca_block_size : int, default=None
        "power": 𝓑, rows of a block of stage 2; None: as `block_size`.
    n_pca_blocks : int, default=10
        "power": 𝒯, blocks of stage 2. More rows refine the components further.
    oversample : int, default=10
        "power": columns to iterate with beyond k and m; the best are kept. 0 is the paper's way.
    n_passes : int, default=None
        "power": passes of `fit` over data that can be read again. None: as many as the blocks asked
        for need, one where their size is left open.
    center : bool, default=True
        "power": carry the mean of the rows along. False assumes that it is zero, as the paper does;
        ``mean_`` is then zero.
    absent_group : {"extend", "zero"}, default="extend"
        "power": extend a block until every group has a row, or (the paper's rule) set the second
        moment of an absent group to zero.
    sketch_size : int, default=None
        "sketch": ℓ, rows kept per cell; None is four times k + m, m summed over comparisons, and
        48 at least.
    sketch_rule : {"power", "frequent_directions"}, default="power"
        "sketch": how rows are condensed; see `GroupSketch`. The second is slower, and its
        `sketch_error_` a guarantee that holds for whatever data.
    decay : float, default=1.0
        "moments", "sketch": factor in (0, 1] by which the weight of all earlier rows shrinks with
        each row, for streams that change; n rows ago weigh ``decay ** n``. A group unseen for long
        keeps its mean and shape.
    memory_limit : int or str, default="1GiB"
        "auto": bytes that exact moments may take, ``"512MiB"`` for example. Where groups come late
        and they would take more, a sketch goes on from them, with a warning.
    solver : {"auto", "moments", "power", "sketch"}, default="auto"
        See the table above.
    pos_label : object, default=None
        The positive label of y; needed unless labels are 0/1, -1/1 or booleans.
    combine_attributes : {"separate", "intersection"}, default="separate"
        Several attributes: one by one, or each combination of labels as one group.
    missing_groups : {"error", "unlabelled"}, default="error"
        Rows without a label: refuse, or count for the covariance but for no group.
    random_state : int, Generator, RandomState or None, default=None
        Starts of the power and Lanczos iterations. None is a fixed start.

    Attributes
    ----------
    phase_ : str
        "collecting" until groups can be compared, "unfair_subspace" and "components" in the
        stages of "power", then "ready". :meth:`progress` says more.
    solver_ : str
        The solver used.
    n_samples_seen_ : int
        Rows so far.
    unprotected_groups_ : dict of str to list
        "power": groups first seen in stage 2, when the unfair subspace was fixed already.
    components_, unfair_subspace_, mean_, explained_variance_, explained_variance_ratio_,
    constraint_violation_, n_components_, groups_, group_counts_
        As of :class:`MomentMatchingPCA`, of the rows so far; worked out when first asked for.
        "power" measures variances along the components by a last pass of `fit` over the rows. Of
        rows that come once, each block of stage 2 is measured before it is used, and later ones
        count more (block t of T counts t times); NaN before the second block.
    sketch_error_ : float
        "sketch": bound of the spectral error of the within-group covariance, squared units of X;
        0 for exact moments.

    Notes
    -----
    **What stays unprotected** is as for :class:`MomentMatchingPCA`; from few rows the unfair
    subspace is itself uncertain: see :mod:`fairpca.theory`.

    Before there are enough rows, `transform` raises `NotFittedError`, which says what is missing.
    `partial_fit` never refits: rows are summed once and forgotten. Answers do not depend on how
    rows are cut into batches, beyond rounding ("moments", "power") or the sketch's error.

    References
    ----------
    .. [1] J. Lee, H. Cho, S.-Y. Yun, C. Yun (2023). Fair Streaming Principal Component Analysis:
       Statistical and Algorithmic Viewpoint. NeurIPS. Algorithms 1–5.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import StreamingMomentMatchingPCA
    >>> rng = np.random.default_rng(0)
    >>> model = StreamingMomentMatchingPCA(2, n_unfair=1)
    >>> for _ in range(5):
    ...     group = rng.choice(["a", "b"], size=40)
    ...     X = rng.normal(size=(40, 6)) + 3 * (group == "a")[:, None] * np.eye(6)[0]
    ...     model = model.partial_fit(X, sensitive_features=group)
    >>> model.n_samples_seen_, model.phase_, model.transform(X[:2]).shape
    (200, 'ready', (2, 2))
    """

    def __init__(
        self,
        n_components: int | float | None = 2,
        *,
        n_unfair: int | Mapping[str, int] = 0,
        match_mean: bool = True,
        difference: Literal["second_moment", "covariance"] = "second_moment",
        criterion: str = "demographic_parity",
        block_size: int | None = None,
        n_unfair_blocks: int = _BLOCKS,
        pca_block_size: int | None = None,
        n_pca_blocks: int = _BLOCKS,
        oversample: int = 10,
        n_passes: int | None = None,
        center: bool = True,
        absent_group: Literal["extend", "zero"] = "extend",
        sketch_size: int | None = None,
        sketch_rule: Literal["power", "frequent_directions"] = "power",
        decay: float = 1.0,
        memory_limit: int | str = "1GiB",
        solver: Literal["auto", "moments", "power", "sketch"] = "auto",
        pos_label: Any = None,
        combine_attributes: Literal["separate", "intersection"] = "separate",
        missing_groups: Literal["error", "unlabelled"] = "error",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_unfair = n_unfair
        self.match_mean = match_mean
        self.difference = difference
        self.criterion = criterion
        self.block_size = block_size
        self.n_unfair_blocks = n_unfair_blocks
        self.pca_block_size = pca_block_size
        self.n_pca_blocks = n_pca_blocks
        self.oversample = oversample
        self.n_passes = n_passes
        self.center = center
        self.absent_group = absent_group
        self.sketch_size = sketch_size
        self.sketch_rule = sketch_rule
        self.decay = decay
        self.memory_limit = memory_limit
        self.solver = solver
        self.pos_label = pos_label
        self.combine_attributes = combine_attributes
        self.missing_groups = missing_groups
        self.random_state = random_state

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Fit from scratch: to arrays and frames, or to a source that is read in blocks.

        Parameters
        ----------
        X : array-like, frame, memory map, path, iterable of blocks, or RowSource
            Of shape (n_samples, n_features), numeric and finite; never written to. Or a path (see
            :func:`fairpca.data.files.row_blocks.as_row_source`), or an iterable of
            ``(X_block, groups_block[, weights[, y]])``; a generator is read once. Or a Dask array
            or frame, or a list of such blocks that are delayed; they are read where they lie.
        y : array-like of shape (n_samples,) or str, default=None
            Labels, or a file's column of them; used by label-conditional criteria only.
        sensitive_features : array-like, frame, str or list of str, default=None
            Each row's group, per attribute, or a file's columns of them.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            Non-negative weights, or a file's column of them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As :class:`MomentMatchingPCA`.
        """
        if is_dask(X):
            return self._fit_on_cluster(X, y, sensitive_features, sample_weight)
        source = as_row_source(
            X, sensitive_features=sensitive_features, y=y, sample_weight=sample_weight
        )
        if source is not None:
            return fit_stream(self, source)
        self._reset()
        rows = self._validate(X, y, sensitive_features, sample_weight)
        n_rows = int(rows.X.shape[0])
        self._begin(rows, n_rows=n_rows)
        return self._fit_in_passes(n_rows, lambda: self._absorb(rows, whole=True))

    def _fit_on_cluster(self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any) -> Self:
        """Fit to a Dask collection: labels are read once, then the rows in one pass or more."""
        self._reset()
        partitions = self._validate_partitions(X, y, sensitive_features, sample_weight)
        index = partitions.index_cells()
        tally = functools.reduce(Tally.merge, (part.tally for part in index))
        n_rows = self.n_samples_seen_ = tally.weighted_rows
        self._begin(self._check_tally(partitions, tally)[0], n_rows=n_rows)
        return self._fit_in_passes(
            n_rows, lambda: self._stream.absorb_partitions(partitions, index)
        )

    @all_or_nothing
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Add a batch of rows: of any number, of one group only, or longer than a block.

        Parameters
        ----------
        X : array-like, frame or sparse matrix of shape (n_samples, n_features)
            Columns as in the first batch.
        y : array-like of shape (n_samples,), default=None
            Labels; used by label-conditional criteria only.
        sensitive_features : array-like, Series or frame of shape (n_samples,) or (n_samples, r)
            Each row's group, per attribute: the same attributes in every batch, while groups may
            appear at any time.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the batch does not fit the earlier ones or is not finite; it then has no effect.
        TypeError
            If it is a Dask collection: `fit` takes these.
        """
        if is_dask(X):
            raise TypeError(
                "partial_fit takes one batch that lies in memory. Give a Dask collection to fit, "
                "which reads it where it lies, or its blocks one by one: partial_fit(block."
                "compute(), …) for block in X.blocks (of an array) or X.partitions (of a frame)."
            )
        first = "_stream" not in vars(self)
        if first and "components_" in vars(self):
            raise ValueError(
                "this model was loaded from a file, which holds what transform needs and not the "
                "sums of its rows: partial_fit cannot go on. Fit again, or resume a checkpoint."
            )
        if first:
            self._reset()
        with rows_from(self.n_samples_seen_):
            rows = self._validate(X, y, sensitive_features, sample_weight, reset=first, batch=True)
            if first:
                self._begin(rows, n_rows=None)
            self._check_batch_labels(rows)
            self._absorb(rows)
        return self

    def progress(self) -> str:
        """Say in words how far the fit has come, and what it waits for."""
        if "_stream" in vars(self):
            return self._progress()
        return "ready" if "components_" in vars(self) else "no rows so far"

    def summary(self) -> GroupSummary:
        """Return the summary of all rows so far, for other moment-based methods.

        With "power" it holds first moments and column variances only.
        """
        if "_stream" not in vars(self):
            self._check_ready()
        return self._stream.current()
