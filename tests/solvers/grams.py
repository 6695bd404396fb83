"""Gram matrices of groups with known difficulties, for the tests of min-max solvers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Grams = np.ndarray  # (n_groups, d, d)
Make = Callable[[np.random.Generator], Grams]


def rotation(rng: np.random.Generator, d: int) -> np.ndarray:
    return np.linalg.qr(rng.standard_normal((d, d)))[0]


def wishart(rng: np.random.Generator, d: int | None = None, n_groups: int = 2) -> Grams:
    d = int(rng.integers(2, 9)) if d is None else d
    A = rng.standard_normal((n_groups, d + 3, d))
    return A.transpose(0, 2, 1) @ A


def commuting(rng: np.random.Generator) -> Grams:
    d = int(rng.integers(2, 9))
    U = rotation(rng, d)
    return np.array([(U * rng.random(d)) @ U.T for _ in range(2)])


def commuting_integers(rng: np.random.Generator) -> Grams:
    d = int(rng.integers(2, 9))
    U = rotation(rng, d)
    return np.array([(U * rng.integers(0, 4, d)) @ U.T for _ in range(2)])


def diagonal_integers(rng: np.random.Generator) -> Grams:
    d = int(rng.integers(2, 9))
    return np.array([np.diag(rng.integers(0, 4, d).astype(float)) for _ in range(2)])


def blocks(rng: np.random.Generator) -> Grams:
    d = int(rng.integers(2, 9))
    a = int(rng.integers(1, d))
    G = np.zeros((2, d, d))
    for part in (slice(0, a), slice(a, d)):
        size = len(range(*part.indices(d)))
        G[:, part, part] = wishart(rng, size)
    U = rotation(rng, d)
    return U @ G @ U.T


def near_crossings(rng: np.random.Generator) -> Grams:
    G = blocks(rng)
    nudge = 10.0 ** -rng.integers(2, 16) * rng.standard_normal(G.shape)
    return G + nudge @ nudge.transpose(0, 2, 1) / np.abs(nudge).max()


def multiplicity(rng: np.random.Generator) -> Grams:
    """At μ = (t, 1 − t) the mixture's top eigenvalue has multiplicity 3 or 4."""
    r = int(rng.integers(3, 5))
    d = r + int(rng.integers(0, 4))
    U, t = rotation(rng, d), 0.1 + 0.8 * rng.random()
    differences = rng.standard_normal(d)
    middle = np.r_[np.full(r, 6.0), np.full(d - r, 3.0)]
    first, second = middle + (1 - t) * differences, middle - t * differences
    return np.array([(U * first) @ U.T, (U * second) @ U.T])


def uneven_scales(rng: np.random.Generator) -> Grams:
    G = wishart(rng)
    G[rng.integers(2)] *= 10.0 ** rng.integers(-18, 19)
    return G


def identical(rng: np.random.Generator) -> Grams:
    G = wishart(rng)
    G[1] = G[0]
    return G


CROSSINGS: dict[str, Make] = {
    "random": wishart,
    "commuting": commuting,
    "commuting integers": commuting_integers,
    "diagonal integers": diagonal_integers,
    "blocks": blocks,
    "near crossings": near_crossings,
    "multiplicity": multiplicity,
    "identical": identical,
}


def among_many(small: Grams, rng: np.random.Generator, d: int = 45) -> Grams:
    """Hide matrices in larger ones: lesser eigenvalues beside them, then a rotation."""
    m = small.shape[1]
    G = np.zeros((len(small), d, d))
    G[:, :m, :m] = small
    G[:, range(m, d), range(m, d)] = 0.5 * rng.random((len(small), d - m))
    U = rotation(rng, d)
    return U @ G @ U.T
