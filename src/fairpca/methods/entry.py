"""A catalog entry: class, description, and the settings that `compare` tries.

The methods themselves are listed in `fairpca.methods.catalog`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, NamedTuple

Aim = Literal["reference", "hide", "balance"]


@dataclass(frozen=True)
class Facts:
    """What the settings to try may depend on: training rows, and what was asked for."""

    n_components: int
    n_features: int  # of the encoded rows
    n_directions: int  # independent ones along which they vary
    n_contrasts: int  # one for an attribute with two groups, else one for each of its levels
    n_unfair: tuple[int, ...] = ()  # m asked for; empty to choose
    max_mmd: float = 1e-3  # the largest MMD² that distribution matching may leave

    @property
    def most_unfair(self) -> int:
        """The largest m that leaves room for the components where no direction repeats."""
        return max(1, (self.n_directions - self.n_components) // self.n_contrasts - 1)

    @property
    def counts(self) -> tuple[int, ...]:
        """The values of m above 0: those asked for, or a twentieth of the features, at most 10."""
        if self.n_unfair:
            return tuple(m for m in self.n_unfair if m)
        return (max(1, min(10, self.n_features // 20, self.most_unfair)),)

    @property
    def ladder(self) -> tuple[int, ...]:
        """Values of m from few to many."""
        return tuple(m for m in (1, 2, 5, 10, 20, 50) if m <= self.most_unfair)


@dataclass(frozen=True)
class Trial:
    """One setting of a method: the parameters of the estimator that differ from its defaults.

    The label heads its row of a comparison; trials of one series are points of one line of a
    figure (the label where it is empty).
    """

    label: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    series: str = ""


Tries = Callable[[Facts], Iterable[Trial]]


def once(label: str, **parameters: Any) -> Tries:
    """Try one setting."""
    return lambda facts: [Trial(label, parameters)]


def several(series: str, settings: Mapping[str, Mapping[str, Any]]) -> Tries:
    """Try several settings: parameters by label, points of one series.

    Examples
    --------
    >>> tries = several("worst group", {"Nash": {"loss": "nash"}, "marginal": {}})
    >>> [(trial.label, trial.parameters) for trial in tries(Facts(2, 9, 9, 1))]
    [('Nash', {'loss': 'nash'}), ('marginal', {})]
    """
    return lambda facts: [Trial(label, given, series) for label, given in settings.items()]


@dataclass(frozen=True)
class Method:
    """One method.

    Parameters
    ----------
    name : str
        As ``--method`` takes it.
    estimator : str
        Its public module and class.
    aim : {"reference", "hide", "balance"}
        Whether it hides groups, or describes them alike.
    about : str
        One line, to choose by.
    tries : callable
        From `Facts` to the settings that a comparison tries.
    further : callable
        The same for the further points of its frontier.
    fixed : mapping of str to value
        Parameters that make the estimator this method; they cannot be set otherwise.
    default : bool
        Whether a comparison includes it unasked.
    slow : bool
        Whether it iterates, and so may take minutes: it is then fitted in a process that ends at
        the time limit.
    nested : bool
        Whether the first components of a longer fit are the shorter fit.
    """

    name: str
    estimator: str
    aim: Aim
    about: str
    tries: Tries
    further: Tries = lambda facts: ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    default: bool = False
    slow: bool = False
    nested: bool = False

    @property
    def kind(self) -> Any:
        """The estimator's class, imported when it is first asked for."""
        module, name = self.estimator.rsplit(".", 1)
        return getattr(import_module(module), name)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that may be set, with their defaults."""
        defaults: dict[str, Any] = self.kind().get_params()
        return {name: value for name, value in defaults.items() if name not in self.fixed}

    def build(self, parameters: Mapping[str, Any], **shared: Any) -> Any:
        """Return the unfitted estimator; `shared` ones that it does not know are left out.

        It returns arrays, whatever output scikit-learn is set to return.
        """
        from fairpca.data.array_library import giving_arrays  # not for `fairpca --help`

        known = self.parameters()
        common = {name: value for name, value in shared.items() if name in known}
        return giving_arrays(self.kind(**{**common, **parameters, **self.fixed}))

    def candidates(self, facts: Facts, *, frontier: bool = False) -> list[Candidate]:
        """Return the rows of a comparison and, if asked for, the further points of a frontier."""
        main = list(self.tries(facts))
        seen = [dict(trial.parameters) for trial in main]
        further = [t for t in self.further(facts) if dict(t.parameters) not in seen]
        found = [Candidate(self, trial) for trial in main]
        return found + [Candidate(self, trial, further=True) for trial in further if frontier]


class Candidate(NamedTuple):
    """A method with one setting; `further` where it is a point of the frontier only."""

    method: Method
    trial: Trial
    further: bool = False
