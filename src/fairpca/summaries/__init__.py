"""Summaries of rows by groups: counts, means, and products with the groups' scatters.

One value in four forms (exact moments, a sketch, the rows held, rows on a cluster), and the
coordinates that they are written in. May import `fairpca.data` only.
"""
