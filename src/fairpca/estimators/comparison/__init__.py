"""Estimators of other authors' methods, for comparison; see `fairpca.comparison`."""
