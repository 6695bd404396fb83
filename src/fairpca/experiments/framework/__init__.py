"""How any experiment is declared, run, kept and written; nothing about a single paper.

Cells and published numbers, the cache of results, runs on all cores, figures and pages. It may
import the data room, the bundled data sets, and figures and processes of the report.
"""
