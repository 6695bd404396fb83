"""The fair noisy power method (Lee et al. 2023): its state, its rows, its steps, its products.

`noisy_power` is the entrance. May import `data`, `summaries` and `solvers.numerics`.
"""
