"""Fitted models in files: writing, reading and checking them, and the rows of a file through one.

May import estimators and `fairpca.data`; only the command line and `fairpca.report` use it.
"""
