"""Other authors' fair PCA methods, for comparison, with the interface of this library's own."""

from fairpca.estimators.comparison.bicriteria import BicriteriaPCA
from fairpca.estimators.comparison.disparity_penalty import DisparityPenaltyPCA
from fairpca.estimators.comparison.leace import LEACE
from fairpca.estimators.comparison.max_min_variance import MaxMinVariancePCA
from fairpca.estimators.comparison.pareto import ParetoPCA

__all__ = ["LEACE", "BicriteriaPCA", "DisparityPenaltyPCA", "MaxMinVariancePCA", "ParetoPCA"]
