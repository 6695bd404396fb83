"""``fairpca fit``: a fair PCA of a table, into a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpca.cli import options
from fairpca.cli.console import command, note, plain, say
from fairpca.cli.inputs import load_parts

if TYPE_CHECKING:
    from fairpca.data.roles import TableParts

__all__ = ["fit"]

METHODS = {
    "moment-matching": "MomentMatchingPCA",
    "distribution-matching": "DistributionMatchingPCA",
    "multigroup": "MultigroupPCA",
    "worst-group": "WorstGroupPCA",
}
LOSSES = ("marginal", "reconstruction", "variance", "nash")
UNUSED = {
    "n_unfair": 0,
    "match_mean": True,
    "difference": "second_moment",
    "strength": 1.0,
    "criterion": "demographic_parity",
    "loss": "marginal",
    "max_mmd": None,
}
"""What an option must be for a method that does not know it (a seed may be anything)."""


@command
def fit(
    data: Annotated[str, options.DATA],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    sensitive: Annotated[list[str] | None, options.SENSITIVE] = None,
    label: Annotated[str | None, options.LABEL] = None,
    drop: Annotated[list[str] | None, options.DROP] = None,
    bins: Annotated[list[str] | None, options.BIN] = None,
    categorical: Annotated[list[str] | None, options.CATEGORICAL] = None,
    keep_sensitive: Annotated[bool, options.KEEP_SENSITIVE] = False,
    method: Annotated[
        str, typer.Option(help=f"The method: {', '.join(METHODS)}.")
    ] = "moment-matching",
    n_components: Annotated[
        str,
        typer.Option(
            "--n-components",
            "-k",
            help="Components to keep: a number, a share such as 0.9 of the variance left after the "
            "constraint, or all.",
        ),
    ] = "2",
    n_unfair: Annotated[
        int, typer.Option(min=0, help="Directions of differing second moments to remove.")
    ] = 0,
    match_mean: Annotated[
        bool,
        typer.Option("--match-mean/--no-match-mean", help="Remove the groups' mean differences."),
    ] = True,
    difference: Annotated[
        str, typer.Option(help="Compare groups by second_moment or covariance.")
    ] = "second_moment",
    strength: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="How far to remove them; 1 removes all.")
    ] = 1.0,
    loss: Annotated[
        str, typer.Option(help=f"What worst-group balances: {', '.join(LOSSES)}.")
    ] = "marginal",
    max_mmd: Annotated[float | None, options.MAX_MMD] = None,
    criterion: Annotated[str, options.CRITERION] = "demographic_parity",
    positive_label: Annotated[str | None, options.POSITIVE_LABEL] = None,
    combine_attributes: Annotated[
        str, typer.Option(help="Take several attributes separate, or their intersection.")
    ] = "separate",
    missing_groups: Annotated[
        str,
        typer.Option(help="Rows without group label: error, or unlabelled (in no group)."),
    ] = "error",
    missing: Annotated[str, options.MISSING] = "error",
    scale: Annotated[
        bool, typer.Option("--scale/--no-scale", help="Standardise numeric columns.")
    ] = True,
    max_categories: Annotated[int | None, options.MAX_CATEGORIES] = None,
    seed: Annotated[int, options.SEED] = 0,
) -> None:
    """Fit a fair PCA to DATA and write it, with the encoding of its columns, to a model file.

    The group columns are needed here only: `fairpca transform` takes rows without them.

    For example:

    `fairpca fit people.csv --sensitive sex --label income -o model.fairpca`

    `fairpca fit people.parquet -s sex -s "age>=40" -k 10 --n-unfair 5 -o model.fairpca`
    """
    from fairpca.data.encoder import TableEncoder
    from fairpca.data.output import check_target
    from fairpca.estimators.persistence import save_model

    if method not in METHODS:
        raise typer.BadParameter(
            f"no method {method!r}; there is {', '.join(METHODS)}.", param_hint="--method"
        )
    for option, value, values in (
        ("--criterion", criterion, options.CRITERIA),
        ("--loss", loss, LOSSES),
        ("--difference", difference, ("second_moment", "covariance")),
        ("--combine-attributes", combine_attributes, ("separate", "intersection")),
        ("--missing-groups", missing_groups, ("error", "unlabelled")),
        ("--missing", missing, ("error", "impute")),
    ):
        options.choice(option, value, values)
    options.check_distinct(output, data)
    check_target(output)
    estimator = _estimator(
        method,
        n_components=options.parse_components(n_components),
        n_unfair=n_unfair,
        match_mean=match_mean,
        difference=difference,
        strength=strength,
        loss=loss,
        max_mmd=max_mmd,
        criterion=criterion,
        combine_attributes=combine_attributes,
        missing_groups=missing_groups,
        random_state=seed,
    )
    given, parts = load_parts(data, sensitive, label, drop, bins, keep_sensitive=keep_sensitive)
    encoder = TableEncoder(
        scale=scale,
        missing=options.choice("--missing", missing, ("error", "impute")),
        categorical=tuple(categorical or ()),
        max_categories=max_categories,
    )
    X = encoder.fit_transform(parts.features)
    if criterion != "demographic_parity":
        estimator.set_params(
            pos_label=options.match_label(
                parts.label, positive_label, given.positive, required=True
            )
        )
    estimator.fit(X, parts.label, sensitive_features=parts.sensitive)
    roles = parts.roles
    details = {
        "sensitive": list(roles.sensitive),
        "label": roles.label,
        "not_features": dict(roles.excluded),
        "data": given.title,
    }
    save_model(estimator, output, encoder=encoder, details=details)
    _report(output, estimator, encoder, parts)


def _estimator(method: str, **parameters: Any) -> Any:
    import fairpca

    estimator = getattr(fairpca, METHODS[method])()
    known = estimator.get_params()
    if parameters["max_mmd"] is not None and method == "distribution-matching":
        parameters["tol"] = parameters.pop("max_mmd")
    for name in sorted(set(parameters) - set(known)):
        if name != "random_state" and UNUSED[name] != parameters[name]:
            raise typer.BadParameter(
                f"the method {method} does not take this.", param_hint=f"--{name.replace('_', '-')}"
            )
        del parameters[name]
    return estimator.set_params(**parameters)


def _report(output: Path, estimator: Any, encoder: Any, parts: TableParts) -> None:
    share = 100 * float(estimator.explained_variance_ratio_.sum())
    say(
        f"{type(estimator).__name__} written to {output}",
        f"  rows        {parts.features.num_rows}",
        f"  features    {encoder.n_features_out_} from {len(parts.roles.features)} columns",
    )
    for name, levels in estimator.groups_.items():
        counts = estimator.group_counts_[name]
        shown = ", ".join(f"{plain(level)} ({n})" for level, n in zip(levels, counts, strict=True))
        say(f"  groups      {name}: {shown}")
    if hasattr(estimator, "unfair_subspace_"):
        removed = len(estimator.unfair_subspace_)
        say(f"  removed     {removed} directions that tell groups apart")
    if hasattr(estimator, "mmd_squared_"):
        say(f"  distance    MMD² between groups {estimator.mmd_squared_:.3g} on these rows")
    if hasattr(estimator, "certified_"):
        say(f"  optimum     {_certificate(estimator)}")
    say(
        f"  kept        {estimator.n_components_} components, {share:.1f} % of the variance",
    )
    if encoder.n_missing_:
        filled = ", ".join(f"{name} ({n})" for name, n in encoder.n_missing_.items())
        note(f"missing values were filled in: {filled}.")
    note(parts.roles.describe())


def _certificate(estimator: Any) -> str:
    """Say what is known of how far the components are from the best ones."""
    import numpy as np

    certified = np.atleast_1d(estimator.certified_)
    if certified.all():
        return "proved, to rounding"
    worst = float(np.max(estimator.duality_gap_))
    return f"not proved for {int(np.sum(~certified))} of {certified.size}: gap up to {worst:.3g}"
