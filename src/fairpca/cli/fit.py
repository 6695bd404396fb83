"""``fairpca fit``: a fair PCA of a table, into a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpca.cli import options
from fairpca.cli.console import command, note, plain, progress_bar, say
from fairpca.cli.inputs import load_parts, open_parts
from fairpca.cli.labels import match_label, no_label
from fairpca.cli.method_options import EstimatorOptions, build_estimator
from fairpca.methods.catalog import METHODS, method_named

if TYPE_CHECKING:
    from fairpca.data.files.table_source import TableSource
    from fairpca.data.tables.encoder import TableEncoder
    from fairpca.data.tables.roles import Roles, TableParts
    from fairpca.estimators.families.stream_fit import StreamProgress

SHOWN_COMPONENTS = 5
CHECKPOINT_SECONDS = 30.0
STREAMING_SOLVERS = ("auto", "moments", "sketch", "power")


@command
def fit(
    *,
    data: options.Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
    groups: options.GroupOptions,
    features: options.FeatureOptions,
    method: Annotated[
        Any,
        typer.Option(
            metavar="NAME",
            parser=options.parsed(method_named),
            help=f"The method: {', '.join(m.name for m in METHODS)}. streaming reads the file in "
            "blocks: it may be larger than memory.",
        ),
    ] = "moment-matching",
    parameters: EstimatorOptions,
    positive_label: options.PositiveLabel = None,
    seed: options.Seed = 0,
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
    from fairpca.data.files.atomic import check_target
    from fairpca.models.files import save_model

    options.check_distinct(output, data)
    check_target(output)
    streaming = method.name == "streaming"
    if streaming and parameters.solver not in STREAMING_SOLVERS:
        raise typer.BadParameter(
            f"{parameters.solver!r} is not one of {', '.join(STREAMING_SOLVERS)}.",
            param_hint="--solver",
        )
    if not streaming and (resume or checkpoint is not None):
        raise typer.BadParameter(
            "only --method streaming keeps checkpoints.",
            param_hint="--resume" if resume else "--checkpoint",
        )
    estimator = build_estimator(method, parameters, seed)
    encoder = features.encoder()
    opened = open_parts(data, groups, features) if streaming else None
    if opened is None:
        given, parts = load_parts(data, groups, features)
        roles, title = parts.roles, given.title
        _set_positive(estimator, parameters.criterion, parts.label, positive_label, given.positive)
        _fit_in_memory(estimator, encoder, parts)
    else:
        table, roles = opened
        title = Path(data).name
        if parameters.criterion is not options.Criterion.demographic_parity:
            labels = _label_values(table, roles)
            _set_positive(estimator, parameters.criterion, labels, positive_label, roles.positive)
        place = checkpoint or output.with_name(f"{output.name}.checkpoint")
        _fit_in_blocks(estimator, encoder, table, roles, checkpoint=place, resume=resume)
    details = {
        "sensitive": list(roles.sensitive),
        "label": roles.label,
        "edges": {name: list(edges) for name, edges in roles.edges.items()},
        "not_features": dict(roles.excluded),
        "data": title,
        "na_values": groups.na_values,
    }
    save_model(estimator, output, encoder=encoder, details=details)
    _report(output, estimator, encoder, roles)


def _set_positive(
    estimator: Any, criterion: options.Criterion, labels: Any, wanted: str | None, known: Any
) -> None:
    """Tell the estimator which label counts as positive, where its criterion compares labels."""
    if criterion is options.Criterion.demographic_parity:
        return
    if labels is None:
        raise ValueError(no_label(f"--criterion {criterion.value}").message)
    positive = match_label(labels, wanted, known, required=True)
    estimator.set_params(pos_label=positive)


def _label_values(table: TableSource, roles: Roles) -> Any:
    """Return the labels of a file's rows, or None without a label."""
    from fairpca.data.tables.roles import label_values

    if roles.label_column is None:
        return None
    return label_values(table.read([roles.label_column]), roles)


def _fit_in_memory(estimator: Any, encoder: TableEncoder, parts: TableParts) -> None:
    from fairpca.data.tables.giveaways import warn_of_giveaways

    X = encoder.fit_transform(parts.features)
    warn_of_giveaways(
        parts,
        categorical=encoder.categorical,
        positive=getattr(estimator, "pos_label", None),
        passed_over=parts.roles.sensitive_columns,
    )
    estimator.fit(X, parts.label, sensitive_features=parts.sensitive)


def _fit_in_blocks(
    estimator: Any,
    encoder: TableEncoder,
    table: TableSource,
    roles: Roles,
    *,
    checkpoint: Path,
    resume: bool,
) -> None:
    """Learn the encoding in one pass over the file and the components in the next ones."""
    from fairpca.data.files.checkpoint import CheckpointFile
    from fairpca.data.tables.encoded_blocks import EncodedTable
    from fairpca.estimators.families.stream_fit import fit_stream

    CheckpointFile(checkpoint).check()
    if resume and not any(checkpoint.parent.glob(f"{checkpoint.name}.[ab]")):
        note(f"there is no checkpoint {checkpoint}: starting from the first row.")
    with progress_bar() as update:
        source = EncodedTable.learn(
            table, roles, encoder, lambda share: update("Reading columns", share)
        )
    with progress_bar() as update:

        def tell(progress: StreamProgress) -> None:
            share = progress.rows / progress.total_rows if progress.total_rows else 0.0
            waiting = progress.waiting / progress.seconds if progress.seconds else 0.0
            update(
                "Fitting",
                share,
                f"{progress.rows_per_second:,.0f} rows/s, waiting for rows "
                f"{100 * waiting:.0f} % of the time",
            )

        fit_stream(
            estimator,
            source,
            checkpoint=checkpoint,
            every=CHECKPOINT_SECONDS,
            resume=resume,
            progress=tell,
        )


def _report(output: Path, estimator: Any, encoder: Any, roles: Roles) -> None:
    from fairpca.data.tables.categories import describe_filled
    from fairpca.methods.fitted import describe_proof

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
    proved = describe_proof(estimator)
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
    from fairpca.methods.fitted import MIN_GROUP_ROWS

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
    from fairpca.methods.fitted import describe_direction, describe_span

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
