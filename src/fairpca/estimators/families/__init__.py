"""What several estimators share: summaries of moments, removing subspaces, kernels, streams.

May import `fairpca.estimators.base` and what it stands on, no estimator.
"""
