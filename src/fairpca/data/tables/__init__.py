"""Tables: the role, kind, problems and encoding of each column.

May import the checked values of `fairpca.data` and its `files`; nothing else of fairpca.
"""
