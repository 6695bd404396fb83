"""Comparisons as values: a table is checked and split, methods are fitted and measured on it.

It imports the catalog, estimators, measures and the search for settings; nothing that draws.
"""
