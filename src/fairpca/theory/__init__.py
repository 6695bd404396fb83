"""How many rows fair streaming PCA needs: the paper's constants from data, its bounds, and curves.

Lee et al. (2023, Section 6) bound the number of rows after which the fair noisy power method is
probably approximately fair and optimal. `problem_constants` estimates the quantities of that bound,
`unfair_block_size`, `pca_block_size` and `sample_complexity` are the bound, and `learning_curve`
measures what happens. May import `estimators` and everything below.
"""

from fairpca.theory._bounds import (
    SampleComplexity,
    pca_block_size,
    sample_complexity,
    unfair_block_size,
)
from fairpca.theory._constants import ProblemConstants, problem_constants
from fairpca.theory._curve import LearningCurve, SamplePopulation, learning_curve

__all__ = [
    "LearningCurve",
    "ProblemConstants",
    "SampleComplexity",
    "SamplePopulation",
    "learning_curve",
    "pca_block_size",
    "problem_constants",
    "sample_complexity",
    "unfair_block_size",
]
