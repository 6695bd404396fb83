"""What there is to know of a method by name: its estimator, and what a comparison tries it with.

The methods themselves are listed in `fairpca.methods.catalogue`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from fairpca.data.array_library import giving_arrays

__all__ = ["FIT_OPTIONS", "Aim", "Facts", "Method", "Trial", "once", "parse_setting", "several"]

Aim = Literal["reference", "hide", "balance"]

FIT_OPTIONS = (
    *("n_components", "n_unfair", "match_mean", "difference", "strength", "criterion", "solver"),
    *("combine_attributes", "missing_groups", "loss", "memory_limit"),
)
"""Parameters for which `fairpca fit` has an option of the same name."""


@dataclass(frozen=True)
class Facts:
    """What the parameters to try may depend on.

    Parameters
    ----------
    n_components : int
        k.
    n_features : int
        Of the encoded training rows.
    n_directions : int
        Independent directions along which they vary.
    n_contrasts : int
        Comparisons of groups: one for two groups, else one for each level, over all attributes.
    n_unfair : tuple of int
        m asked for; empty to choose.
    max_mmd : float
        The largest MMD² that distribution matching may leave.
    """

    n_components: int
    n_features: int
    n_directions: int
    n_contrasts: int
    n_unfair: tuple[int, ...] = ()
    max_mmd: float = 1e-3

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
    """One row of a comparison, and one point of a frontier.

    Parameters
    ----------
    label : str
        Heads the row.
    parameters : mapping of str to value
        Of the estimator, where they differ from its defaults.
    series : str
        Trials of one series are points of one line; the label where it is empty.
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
        One line for a reader who chooses.
    tries : callable
        From `Facts` to the trials of a comparison.
    further : callable
        The same for the further points of its frontier.
    fixed : mapping of str to value
        Parameters that make the estimator this method; they cannot be set otherwise.
    flags : mapping of str to str
        Options of `fairpca fit` by the parameter they set, where it has another name.
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
    flags: Mapping[str, str] = field(default_factory=dict)
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
        known = self.parameters()
        common = {name: value for name, value in shared.items() if name in known}
        return giving_arrays(self.kind(**{**common, **parameters, **self.fixed}))

    def trials(self, facts: Facts, *, frontier: bool = False) -> tuple[list[Trial], list[Trial]]:
        """Return the rows of a comparison and, if asked for, the further points of a frontier."""
        main = list(self.tries(facts))
        seen = [dict(trial.parameters) for trial in main]
        further = list(self.further(facts)) if frontier else []
        return main, [trial for trial in further if dict(trial.parameters) not in seen]

    def options(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what tells `fairpca fit` to use this method with these parameters.

        Examples
        --------
        >>> from fairpca.methods.catalogue import method_named
        >>> method_named("moment-matching").options({"n_unfair": 3, "match_mean": False})
        ('--n-unfair', '3', '--no-match-mean')
        >>> method_named("distribution-matching").options({"tol": 0.01, "n_init": 2})
        ('--method', 'distribution-matching', '--max-mmd', '0.01', '--set', 'n_init=2')
        """
        words = [] if self.name == "moment-matching" else ["--method", self.name]
        for name, value in parameters.items():
            if name in self.flags:
                words += [self.flags[name], f"{value:g}"]
            elif name == "match_mean":
                words.append("--match-mean" if value else "--no-match-mean")
            elif name in FIT_OPTIONS:
                words += [f"--{name.replace('_', '-')}", str(value)]
            else:
                words += ["--set", f"{name}={json.dumps(value)}"]
        return tuple(words)


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``; the value is a number, true, false, null, a JSON list, or else text.

    Raises
    ------
    ValueError
        If it has no name or no ``=``.

    Examples
    --------
    >>> parse_setting("delta=0.1"), parse_setting("kernel=rbf")
    (('delta', 0.1), ('kernel', 'rbf'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{text!r} is not of the form NAME=VALUE, such as tol=0.01.")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value
