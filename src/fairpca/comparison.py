"""Other authors' fair PCA methods, for comparison, with the interface of this library's own."""

from fairpca.estimators.comparison.bicriteria import BicriteriaPCA
from fairpca.estimators.comparison.convex_matching import ConvexMatchingPCA
from fairpca.estimators.comparison.covariance_matching import CovarianceMatchingPCA
from fairpca.estimators.comparison.disparity_penalty import DisparityPenaltyPCA
from fairpca.estimators.comparison.inlp import INLP
from fairpca.estimators.comparison.kernel_mean_matching import KernelMeanMatchingPCA
from fairpca.estimators.comparison.leace import LEACE
from fairpca.estimators.comparison.max_min_variance import MaxMinVariancePCA
from fairpca.estimators.comparison.pareto import ParetoPCA
from fairpca.estimators.comparison.rlace import RLACE

__all__ = [
    "INLP",
    "LEACE",
    "RLACE",
    "BicriteriaPCA",
    "ConvexMatchingPCA",
    "CovarianceMatchingPCA",
    "DisparityPenaltyPCA",
    "KernelMeanMatchingPCA",
    "MaxMinVariancePCA",
    "ParetoPCA",
]
