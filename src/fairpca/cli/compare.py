"""``fairpca compare``: plain PCA and its fair variants on one table."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from fairpca.cli import options
from fairpca.cli.comparison import check_files, fit_commands, show_comparison, write_files
from fairpca.cli.console import command, in_words, progress_bar, say
from fairpca.cli.inputs import DEFAULT_DATASET, load_parts
from fairpca.cli.labels import match_label, no_label
from fairpca.methods.catalog import DEFAULT, METHODS, chosen

SHORT_TARGETS = "mmd, leakage, linear-leakage, dp, eop, eod, worst-loss, marginal-loss"


def _method(name: str) -> str:
    chosen([name])
    return name


def _target(text: str) -> Any:
    from fairpca.model_selection import parse_target

    return parse_target(text)


@command
def compare(
    *,
    data: Annotated[str | None, options.DATA] = None,
    groups: options.GroupOptions,
    features: options.FeatureOptions,
    method: Annotated[
        list[Any],
        typer.Option(
            "--method",
            metavar="NAME",
            parser=options.parsed(_method),
            help=f"A method to compare with plain PCA; repeatable. all, or some of "
            f"{', '.join(m.name for m in METHODS[1:])}.  [default: {', '.join(DEFAULT[1:])}]",
        ),
    ] = [],  # noqa: B006 - typer copies it
    n_components: options.NComponents = 2,
    n_unfair: Annotated[
        list[int],
        typer.Option(
            "--n-unfair",
            "-m",
            min=0,
            metavar="M",
            help="Directions of differing second moments to remove; repeat to compare several.  "
            "[default: a twentieth of the features]",
        ),
    ] = [],  # noqa: B006 - typer copies it
    max_mmd: options.MaxMmd = None,
    criterion: options.CriterionOption = options.Criterion.demographic_parity,
    positive_label: options.PositiveLabel = None,
    missing_groups: options.MissingGroupsOption = options.MissingGroups.error,
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="R",
            help="Random splits of the rows; with several, numbers are means ± standard "
            "deviations.",
        ),
    ] = 1,
    frontier: Annotated[
        bool,
        typer.Option(
            "--frontier", help="Try further settings of each method, from loose to strict."
        ),
    ] = False,
    target: Annotated[
        Any,
        typer.Option(
            metavar="MEASURE<=X",
            parser=options.parsed(_target),
            help="Choose each method's setting by cross-validation: the most variance at, say, "
            f"'mmd<=0.01'. Measures: {SHORT_TARGETS} (see the manual).",
        ),
    ] = None,
    ranks: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="R",
            help="The page and the numbers have what balanced methods lose with 1 to R components; "
            "0 for not.",
        ),
    ] = 8,
    time_limit: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="The most time to fit one setting of a method that iterates; 0 for no limit.",
        ),
    ] = 120.0,
    seed: options.Seed = 0,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="Processes, one thread each, that share the methods; 1: all threads on one.",
        ),
    ] = 1,
    measuring: options.Measuring,
) -> None:
    """Compare plain PCA with fair PCA on DATA, and write an HTML page about it.

    Methods are fitted on training rows and measured on held-out ones: variance kept, distance
    between groups (MMD²), how well the group can still be told, and what a classifier makes of the
    components. Without DATA: the bundled German credit data.

    For example:

    `fairpca compare`

    `fairpca compare people.csv --sensitive sex --label income --html people.html`

    `fairpca compare people.csv -s "age>=40" -y hired --n-unfair 2 --n-unfair 5 --drop name`

    `fairpca compare adult --method all --frontier --repeats 5 --csv adult.csv`

    `fairpca compare adult --target "mmd<=0.01"`
    """
    from fairpca.report.comparing.comparison import compare_parts
    from fairpca.report.comparing.result import Settings

    check_files(measuring, *([data] if data else []))
    given, parts = load_parts(data, groups, features)
    positive = None
    if parts.label is not None:
        positive = match_label(parts.label, positive_label, given.positive)
    else:
        _check_without_label(positive_label, criterion, target)
    settings = Settings(
        n_components=n_components,
        n_unfair=tuple(n_unfair),
        max_mmd=1e-3 if max_mmd is None else max_mmd,
        criterion=criterion.value,
        pos_label=positive,
        test_size=measuring.test_size,
        max_samples=measuring.max_samples,
        seed=seed,
        methods=tuple(method) or DEFAULT,
        frontier=frontier,
        repeats=repeats,
        n_ranks=0 if measuring.no_html and measuring.csv is None else ranks,
        time_limit=time_limit or None,
        target=target,
        missing_groups=missing_groups.plain,
    )
    with progress_bar() as update:
        comparison = compare_parts(
            parts,
            encoder=features.encoder(),
            settings=settings,
            title=given.title,
            remarks=given.remarks,
            jobs=jobs,
            progress=lambda share, label: update("Comparing", share, label),
            words=in_words,
        )
    words = [data or DEFAULT_DATASET.replace("_", "-"), *options.as_words(groups, features)]
    if missing_groups is options.MissingGroups.unlabelled:
        words += ["--missing-groups", missing_groups.value]
    words += ["--seed", str(seed)] if seed else []
    comparison = replace(comparison, commands=fit_commands(comparison, words))
    written = write_files(comparison, measuring)
    show_comparison(comparison)
    say(*written)


def _check_without_label(
    positive_label: str | None, criterion: options.Criterion, target: Any
) -> None:
    """Refuse what needs a label column."""
    from fairpca.model_selection.targets import find_target

    if criterion is not options.Criterion.demographic_parity:
        raise no_label(f"--criterion {criterion.value}")
    if positive_label is not None:
        raise no_label("--positive-label")
    if target is not None and find_target(target.name).needs_label:
        raise no_label("--target")
