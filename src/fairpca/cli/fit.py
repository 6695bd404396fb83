"""``fairpca fit``: a fair PCA of a table, into a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpca.cli import options
from fairpca.cli.console import command, note, plain, say
from fairpca.cli.fit_blocks import fit_in_blocks
from fairpca.cli.inputs import load_parts, open_parts
from fairpca.methods.catalogue import METHODS, method_named
from fairpca.methods.entry import FIT_OPTIONS, parse_setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairpca.data.files.table_source import TableSource
    from fairpca.data.tables.roles import Roles
    from fairpca.methods.entry import Method

__all__ = ["fit"]

SHOWN_COMPONENTS = 5
LOSSES = ("marginal", "reconstruction", "variance", "nash")
UNSET = {
    "n_unfair": 0,
    "match_mean": True,
    "difference": "second_moment",
    "strength": 1.0,
    "criterion": "demographic_parity",
    "loss": "marginal",
    "solver": "auto",
    "memory_limit": "1GiB",
    "combine_attributes": "separate",
    "missing_groups": "error",
}
"""Options as they are when not given: the method's class then has its own default."""


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
        str,
        typer.Option(
            help=f"The method: {', '.join(m.name for m in METHODS)}. streaming reads the file in "
            "blocks: it may be larger than memory."
        ),
    ] = "moment-matching",
    n_components: Annotated[str, options.N_COMPONENTS] = "2",
    n_unfair: Annotated[
        int,
        typer.Option(
            "--n-unfair", "-m", min=0, help="Directions of differing second moments to remove."
        ),
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
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other parameter of the method's class, such as n_init=5. Repeatable.",
        ),
    ] = None,
    criterion: Annotated[str, options.CRITERION] = "demographic_parity",
    positive_label: Annotated[str | None, options.POSITIVE_LABEL] = None,
    combine_attributes: Annotated[
        str, typer.Option(help="Take several attributes separate, or their intersection.")
    ] = "separate",
    missing_groups: Annotated[str, options.MISSING_GROUPS] = "error",
    missing: Annotated[str, options.MISSING] = "error",
    na_values: Annotated[list[str] | None, options.NA_VALUES] = None,
    scale: Annotated[bool, options.SCALE] = True,
    max_categories: Annotated[int | None, options.MAX_CATEGORIES] = None,
    seed: Annotated[int, options.SEED] = 0,
    solver: Annotated[
        str,
        typer.Option(
            help="How to solve it; of streaming auto, moments (exact), sketch or power (the "
            "paper's)."
        ),
    ] = "auto",
    memory_limit: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="streaming: what exact moments may take, such as 512MiB; a sketch is kept if they "
            "would take more.",
        ),
    ] = "1GiB",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="streaming: where to keep checkpoints; by default beside the model file, removed "
            "when it is done."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="streaming: go on from the last checkpoint.")
    ] = False,
) -> None:
    """Fit a fair PCA to DATA and write it, with the encoding of its columns, to a model file.

    The group columns are needed here only: `fairpca transform` takes rows without them.

    For example:

    `fairpca fit people.csv --sensitive sex --label income -o model.fairpca`

    `fairpca fit people.parquet -s sex -s "age>=40" -k 10 --n-unfair 5 -o model.fairpca`
    """
    from fairpca.data.choices import parse_bytes
    from fairpca.data.files.atomic import check_target
    from fairpca.data.tables.encoder import TableEncoder
    from fairpca.data.tables.giveaways import warn_of_giveaways
    from fairpca.models.files import save_model

    options.checked("--method", method_named, method)
    for option, value, values in (
        ("--criterion", criterion, options.CRITERIA),
        ("--loss", loss, LOSSES),
        ("--difference", difference, ("second_moment", "covariance")),
        ("--combine-attributes", combine_attributes, ("separate", "intersection")),
        ("--missing-groups", missing_groups, options.GROUPS_MISSING),
        ("--missing", missing, ("error", "impute")),
    ):
        options.choice(option, value, values)
    options.checked("--memory-limit", parse_bytes, memory_limit)
    options.check_distinct(output, data)
    check_target(output)
    streaming = method == "streaming"
    if streaming:
        options.choice("--solver", solver, ("auto", "moments", "sketch", "power"))
    if not streaming and (resume or checkpoint is not None):
        raise typer.BadParameter(
            "only --method streaming keeps checkpoints.",
            param_hint="--resume" if resume else "--checkpoint",
        )
    estimator = _estimator(
        method_named(method),
        settings or (),
        max_mmd,
        n_components=options.parse_components(n_components),
        n_unfair=n_unfair,
        match_mean=match_mean,
        difference=difference,
        strength=strength,
        loss=loss,
        solver=solver,
        memory_limit=memory_limit,
        criterion=criterion,
        combine_attributes=combine_attributes,
        missing_groups=missing_groups,
        random_state=seed,
    )
    encoder = TableEncoder(
        scale=scale,
        missing=options.choice("--missing", missing, ("error", "impute")),
        categorical=tuple(categorical or ()),
        max_categories=max_categories,
    )
    named = (data, sensitive, label, drop, bins)
    reading: Any = {
        "keep_sensitive": keep_sensitive,
        "na_values": na_values,
        "categorical": categorical,
    }
    opened = open_parts(*named, **reading) if streaming else None
    known = None
    if opened is None:
        given, parts = load_parts(*named, **reading)
        roles, title, known, labels = parts.roles, given.title, given.positive, parts.label
    else:
        table, roles = opened
        title, known = Path(data).name, roles.positive
        labels = _label_values(table, roles) if criterion != "demographic_parity" else None
    if criterion != "demographic_parity":
        positive = options.match_label(labels, positive_label, known, required=True)
        estimator.set_params(pos_label=positive)
    if opened is None:
        X = encoder.fit_transform(parts.features)
        warn_of_giveaways(
            parts,
            categorical=encoder.categorical,
            positive=getattr(estimator, "pos_label", None),
            passed_over=roles.sensitive_columns,
        )
        estimator.fit(X, parts.label, sensitive_features=parts.sensitive)
    else:
        place = checkpoint or output.with_name(f"{output.name}.checkpoint")
        fit_in_blocks(estimator, encoder, table, roles, checkpoint=place, resume=resume)
    details = {
        "sensitive": list(roles.sensitive),
        "label": roles.label,
        "edges": {name: list(edges) for name, edges in roles.edges.items()},
        "not_features": dict(roles.excluded),
        "data": title,
        "na_values": list(na_values or ()),
    }
    save_model(estimator, output, encoder=encoder, details=details)
    _report(output, estimator, encoder, roles)


def _label_values(table: TableSource, roles: Roles) -> Any:
    """Return the labels of a file's rows, or None without a label."""
    from fairpca.data.tables.roles import label_values

    if roles.label_column is None:
        return None
    return label_values(table.read([roles.label_column]), roles)


def _estimator(
    method: Method, settings: Sequence[str], max_mmd: float | None, **parameters: Any
) -> Any:
    """Build the estimator from the options, each of which it must know."""
    known = method.parameters()
    if max_mmd is not None:
        named = [name for name, option in method.flags.items() if option == "--max-mmd"]
        parameters[named[0] if named else "max_mmd"] = max_mmd
    given = {k: v for k, v in parameters.items() if k not in UNSET or UNSET[k] != v}
    for name in sorted(set(given) - set(known) - {"random_state"}):
        raise typer.BadParameter(
            f"the method {method.name} does not take this.",
            param_hint=f"--{name.replace('_', '-')}",
        )
    return method.build(_settings(method, settings), **given)


def _settings(method: Method, texts: Sequence[str]) -> dict[str, Any]:
    """Read ``--set``: parameters that have no option of their own."""
    found = {}
    own = {*FIT_OPTIONS, *method.flags, "pos_label", "random_state"}
    free = sorted(set(method.parameters()) - own)
    for text in texts:
        options.checked("--set", parse_setting, text)
        name, value = parse_setting(text)
        if name not in free:
            raise typer.BadParameter(
                f"{name!r} is none of the parameters of {method.name} that have no option of their "
                f"own: {', '.join(free) or 'there are none'}.",
                param_hint="--set",
            )
        found[name] = value
    return found


def _report(output: Path, estimator: Any, encoder: Any, roles: Roles) -> None:
    from fairpca.data.tables.categories import describe_filled
    from fairpca.report.comparing.certificate import certificate

    share = 100 * float(estimator.explained_variance_ratio_.sum())
    say(
        f"{type(estimator).__name__} written to {output}",
        f"  rows        {estimator.n_samples_seen_}",
        f"  features    {encoder.n_features_out_} from {len(roles.features)} columns",
    )
    for name, levels in estimator.groups_.items():
        counts = zip(levels, estimator.group_counts_[name], strict=True)
        say(
            f"  groups      {name}: {options.few([f'{plain(level)} ({n})' for level, n in counts])}"
        )
    if hasattr(estimator, "unfair_subspace_"):
        removed = len(estimator.unfair_subspace_)
        if removed == 1:
            say("  removed     1 direction that tells groups apart")
        else:
            say(f"  removed     {removed} directions that tell groups apart")
    if hasattr(estimator, "mmd_squared_"):
        say(f"  distance    MMD² between groups {estimator.mmd_squared_:.3g} on these rows")
    proved = certificate(estimator)
    if proved is not None:
        say(f"  optimum     {proved}")
    elif hasattr(estimator, "duality_gap_"):
        say(f"  optimum     of the relaxation, within {estimator.duality_gap_:.1g} of its bound")
    of = "the variance" if hasattr(estimator, "components_") else "the feature space's variance"
    say(f"  kept        {estimator.n_components_} components, {share:.1f} % of {of}")
    _say_loadings(estimator, encoder.get_feature_names_out().tolist())
    if encoder.n_missing_:
        note(describe_filled(encoder.n_missing_))
    _note_small_groups(estimator)
    note(roles.describe())


def _note_small_groups(estimator: Any) -> None:
    from fairpca.report.comparing.splits import MIN_GROUP_ROWS

    for name, levels in estimator.groups_.items():
        counts = zip(levels, estimator.group_counts_[name], strict=True)
        small = [f"{plain(level)} ({n})" for level, n in counts if n < MIN_GROUP_ROWS]
        if small:
            note(
                f"{name} has groups of fewer than {MIN_GROUP_ROWS} rows: {options.few(small)}. "
                "What is found for so few may be chance: put small groups together, or leave them "
                "out."
            )


def _say_loadings(estimator: Any, names: list[str]) -> None:
    """Say which features the components, and what was removed, mostly consist of."""
    from fairpca.report.comparing.loadings import describe_direction, describe_span

    components: Any = getattr(estimator, "components_", ())  # a kernel's are no features
    components = components[: estimator.n_components_]
    for k, component in enumerate(components[:SHOWN_COMPONENTS]):
        say(f"  component {k + 1} {describe_direction(component, names)}")
    more = len(components) - SHOWN_COMPONENTS
    if more > 0:
        say(f"  … and {more} more component{'s' if more > 1 else ''}")
    removed: Any = getattr(estimator, "unfair_subspace_", ())
    if len(removed):
        say(f"  proxies     {describe_span(removed, names, 6)} (what the removed part consists of)")
