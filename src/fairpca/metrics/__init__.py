"""Measures of a representation: variance kept, group information left, classifiers trained on it.

Functions of arrays or frames and group labels; none needs an estimator of this package. May import
`solvers`, `summaries` and `data`.
"""

from fairpca.metrics.discrepancy import (
    GroupDiscrepancy,
    median_bandwidth,
    mmd_squared,
    mmd_squared_by_pair,
)
from fairpca.metrics.downstream import (
    DownstreamResult,
    GroupRates,
    downstream,
    downstream_published_train_on_test,
)
from fairpca.metrics.leakage import LeakageScore, attribute_leakage, linear_probe_unfairness
from fairpca.metrics.permutation import PermutationTest, mmd_permutation_test
from fairpca.metrics.reconstruction import (
    GroupMeasure,
    extra_reconstruction_error,
    group_reconstruction_error,
    incremental_loss,
    marginal_loss,
)
from fairpca.metrics.variance import (
    PafoGaps,
    communalities,
    explained_variance_ratio,
    pafo_gaps,
)

__all__ = [
    "DownstreamResult",
    "GroupDiscrepancy",
    "GroupMeasure",
    "GroupRates",
    "LeakageScore",
    "PafoGaps",
    "PermutationTest",
    "attribute_leakage",
    "communalities",
    "downstream",
    "downstream_published_train_on_test",
    "explained_variance_ratio",
    "extra_reconstruction_error",
    "group_reconstruction_error",
    "incremental_loss",
    "linear_probe_unfairness",
    "marginal_loss",
    "median_bandwidth",
    "mmd_permutation_test",
    "mmd_squared",
    "mmd_squared_by_pair",
    "pafo_gaps",
]
