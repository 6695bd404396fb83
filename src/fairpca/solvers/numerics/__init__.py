"""Numerics that several families use: eigenpairs, spans, subspaces, the Fantope, programs, threads.

May import summaries and data, and no family of solvers.
"""
