"""Model files: writing, reading and checking them, and applying a model to the rows of a file.

May import estimators and `fairpca.data`; only the command line and `fairpca.report` use it.
"""
