"""Group summaries: counts, means and second moments of cells of rows, held in several ways.

`base` says what every summary offers; it is held as exact moments, a sketch, the rows themselves,
or any of these over partitions. May import `data` only.
"""
