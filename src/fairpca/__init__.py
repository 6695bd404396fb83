"""Fair principal component analysis."""
