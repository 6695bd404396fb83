"""The parameters of a method as options of `fairpca fit`, and options as parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum, auto
from typing import Annotated, Any

import typer

from fairpca.cli import options
from fairpca.cli.errors import PARAMETERS
from fairpca.methods.entry import Method

MAX_MMD = {"distribution-matching": "tol"}
"""The parameter that ``--max-mmd`` sets, by method."""


class Difference(StrEnum):
    """As of `MomentMatchingPCA`."""

    second_moment = auto()
    covariance = auto()


class Loss(StrEnum):
    """As of `WorstGroupPCA`."""

    marginal = auto()
    reconstruction = auto()
    variance = auto()
    nash = auto()


class CombineAttributes(StrEnum):
    """As of the estimators."""

    separate = auto()
    intersection = auto()


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``; the value is a number, true, false, null, a JSON list, or else text.

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


def _memory(text: str) -> str:
    """Check a size in bytes; the estimator reads it again."""
    from fairpca.data.choices import parse_bytes

    parse_bytes(text)
    return text


@dataclass(frozen=True)
class EstimatorOptions:
    """Parameters of the estimator that have an option of their own, or are set by ``--set``.

    An option with its default leaves the parameter as the class has it.
    """

    n_components: options.NComponents = 2
    n_unfair: Annotated[
        int,
        typer.Option(
            "--n-unfair", "-m", min=0, help="Directions of differing second moments to remove."
        ),
    ] = 0
    match_mean: Annotated[
        bool,
        typer.Option("--match-mean/--no-match-mean", help="Remove the groups' mean differences."),
    ] = True
    difference: Annotated[
        Difference, typer.Option(help="Compare groups by second_moment or covariance.")
    ] = Difference.second_moment
    strength: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="How far to remove them; 1 removes all.")
    ] = 1.0
    loss: Annotated[Loss, typer.Option(help="What worst-group balances.")] = Loss.marginal
    max_mmd: options.MaxMmd = None
    set: Annotated[
        list[Any],
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            parser=options.parsed(parse_setting),
            help="Any other parameter of the method's class, such as n_init=5. Repeatable.",
        ),
    ] = field(default_factory=list)
    criterion: options.CriterionOption = options.Criterion.demographic_parity
    combine_attributes: Annotated[
        CombineAttributes,
        typer.Option(help="Take several attributes separate, or their intersection."),
    ] = CombineAttributes.separate
    missing_groups: options.MissingGroupsOption = options.MissingGroups.error
    solver: Annotated[
        str,
        typer.Option(
            help="How to solve it; of streaming auto, moments (exact), sketch or power (the "
            "paper's)."
        ),
    ] = "auto"
    memory_limit: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            parser=options.parsed(_memory),
            help="streaming: what exact moments may take, such as 512MiB; a sketch is kept if they "
            "would take more.",
        ),
    ] = "1GiB"


OWN_OPTION = {f.name for f in fields(EstimatorOptions)} - {"max_mmd", "set"}
"""Parameters for which `fairpca fit` has an option of the same name."""


def build_estimator(method: Method, given: EstimatorOptions, seed: int) -> Any:
    """Build the estimator from the options, each of which it must know."""
    known = method.parameters()
    parameters = options.changed(given) | {"n_components": given.n_components}
    settings = dict(parameters.pop("set", ()))
    if "max_mmd" in parameters and method.name in MAX_MMD:
        parameters[MAX_MMD[method.name]] = parameters.pop("max_mmd")
    for name in sorted(set(parameters) - set(known)):
        raise typer.BadParameter(
            f"the method {method.name} does not take this.",
            param_hint=f"--{name.replace('_', '-')}",
        )
    own = {*OWN_OPTION, MAX_MMD.get(method.name), "pos_label", "random_state"}
    free = sorted(set(known) - own)
    for name in settings:
        if name not in free:
            raise typer.BadParameter(
                f"{name!r} is none of the parameters of {method.name} that have no option of their "
                f"own: {', '.join(free) or 'there are none'}.",
                param_hint="--set",
            )
    return method.build(settings, **parameters, random_state=seed)


def option_words(method: Method, parameters: Mapping[str, Any]) -> list[str]:
    """Return what tells `fairpca fit` to use this method with these parameters.

    Examples
    --------
    >>> from fairpca.methods.catalog import method_named
    >>> option_words(method_named("moment-matching"), {"n_unfair": 3, "match_mean": False})
    ['--n-unfair', '3', '--no-match-mean']
    >>> option_words(method_named("distribution-matching"), {"tol": 0.01, "n_init": 2})
    ['--method', 'distribution-matching', '--max-mmd', '0.01', '--set', 'n_init=2']
    """
    words = [] if method.name == "moment-matching" else ["--method", method.name]
    for name, value in parameters.items():
        flag = f"--{PARAMETERS.get(name, name).replace('_', '-')}"
        if name == MAX_MMD.get(method.name):
            words += ["--max-mmd", f"{value:g}"]
        elif name == "match_mean":
            words.append(flag if value else "--no-match-mean")
        elif name in OWN_OPTION or name in PARAMETERS:
            words += [flag, str(value)]
        else:
            words += ["--set", f"{name}={json.dumps(value)}"]
    return words
