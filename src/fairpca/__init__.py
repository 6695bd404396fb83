"""Fair principal component analysis.

Project data so that groups cannot be told apart (representation fairness), or so that no group is
described worse than it must be (balanced reconstruction).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairpca._version import __version__

if TYPE_CHECKING:
    from fairpca.estimators.distribution_matching import DistributionMatchingPCA
    from fairpca.estimators.moment_matching import MomentMatchingPCA
    from fairpca.estimators.multigroup import MultigroupPCA
    from fairpca.estimators.streaming import StreamingMomentMatchingPCA
    from fairpca.estimators.worst_group import WorstGroupPCA

__all__ = [
    "DistributionMatchingPCA",
    "MomentMatchingPCA",
    "MultigroupPCA",
    "StreamingMomentMatchingPCA",
    "WorstGroupPCA",
    "__version__",
]

_HOMES = {
    "DistributionMatchingPCA": "estimators.distribution_matching",
    "MomentMatchingPCA": "estimators.moment_matching",
    "MultigroupPCA": "estimators.multigroup",
    "StreamingMomentMatchingPCA": "estimators.streaming",
    "WorstGroupPCA": "estimators.worst_group",
}


def __getattr__(name: str) -> Any:
    """Import an estimator when it is first used: `fairpca --help` need not load scikit-learn."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted(__all__)
