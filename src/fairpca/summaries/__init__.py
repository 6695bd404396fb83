"""What is known of rows once they have been summed: group summaries, however they are held.

`base` says what every summary offers; it is held as exact moments, a sketch, the rows themselves,
or any of these over partitions. May import `data` only.
"""
