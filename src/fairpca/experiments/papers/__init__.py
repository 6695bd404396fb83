"""The papers' tables and figures, one module for each group that shares units and methods.

``table_protocol`` and ``table_methods`` hold what the tables on people's data share: splits,
methods by name, measures. It may import the framework and every room below the experiments.
"""
