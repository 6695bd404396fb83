"""Files: kinds of data files (`kinds`), tables and blocks of rows read from them, and writing.

A table in a file is a `TableSource` (one module per format); `row_blocks` opens whatever a fit in
blocks may be given as a `RowSource`. Files and checkpoints are written whole or not at all. May
import the checked values of `fairpca.data`, and nothing of its tables.
"""
