"""Distribution matching: the most variance at a bounded squared maximum mean discrepancy (MMD²).

Everything about MMD² (value, derivatives, surrogate, bandwidth) and the search for components;
`match` is its one entrance. May import `solvers.numerics`, summaries and data.
"""
