"""Estimators of other authors' methods, for comparison; users find them in `fairpca.comparison`.

May import the base and the families, not the estimators of `fairpca` itself.
"""
