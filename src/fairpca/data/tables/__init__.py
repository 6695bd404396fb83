"""Tables: what each column is for, what it holds, what is wrong with it, and its encoding.

May import the checked values of `fairpca.data` and its `files`; nothing else of fairpca.
"""
