"""Fair principal component analysis.

Project data so that groups cannot be told apart (representation fairness), or so that no group is
described worse than it must be (balanced reconstruction).
"""

from fairpca._version import __version__
from fairpca.estimators.moment_matching import MomentMatchingPCA

__all__ = ["MomentMatchingPCA", "__version__"]
