"""``fairpca compare``: plain PCA and its fair variants on one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairpca.cli import options
from fairpca.cli.comparison_files import check_files, write_files
from fairpca.cli.comparison_table import show_comparison
from fairpca.cli.console import command, in_words, say
from fairpca.cli.inputs import DEFAULT_DATASET, load_parts
from fairpca.cli.progress import progress_bar
from fairpca.methods.catalogue import DEFAULT, METHODS, chosen

__all__ = ["compare"]

SHORT_TARGETS = (
    "mmd",
    "leakage",
    "linear-leakage",
    "dp",
    "eop",
    "eod",
    "worst-loss",
    "marginal-loss",
)


@command
def compare(
    data: Annotated[
        str | None,
        options.DATA,
    ] = None,
    sensitive: Annotated[list[str] | None, options.SENSITIVE] = None,
    label: Annotated[str | None, options.LABEL] = None,
    drop: Annotated[list[str] | None, options.DROP] = None,
    bins: Annotated[list[str] | None, options.BIN] = None,
    categorical: Annotated[list[str] | None, options.CATEGORICAL] = None,
    keep_sensitive: Annotated[bool, options.KEEP_SENSITIVE] = False,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="NAME",
            help=f"A method to compare with plain PCA; repeatable. all, or some of "
            f"{', '.join(m.name for m in METHODS[1:])}.  [default: {', '.join(DEFAULT[1:])}]",
        ),
    ] = None,
    n_components: Annotated[str, options.N_COMPONENTS] = "2",
    n_unfair: Annotated[
        list[int] | None,
        typer.Option(
            "--n-unfair",
            "-m",
            min=0,
            metavar="M",
            help="Directions of differing second moments to remove; repeat to compare several.  "
            "[default: a twentieth of the features]",
        ),
    ] = None,
    max_mmd: Annotated[float | None, options.MAX_MMD] = None,
    criterion: Annotated[str, options.CRITERION] = "demographic_parity",
    positive_label: Annotated[str | None, options.POSITIVE_LABEL] = None,
    missing_groups: Annotated[str, options.MISSING_GROUPS] = "error",
    missing: Annotated[str, options.MISSING] = "error",
    na_values: Annotated[list[str] | None, options.NA_VALUES] = None,
    scale: Annotated[bool, options.SCALE] = True,
    max_categories: Annotated[int | None, options.MAX_CATEGORIES] = None,
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
        str | None,
        typer.Option(
            metavar="MEASURE<=X",
            help="Choose each method's setting by cross-validation: the most variance at, say, "
            f"'mmd<=0.01'. Measures: {', '.join(SHORT_TARGETS)} (see the manual).",
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
    test_size: Annotated[float, options.TEST_SIZE] = 0.3,
    max_samples: Annotated[int, options.MAX_SAMPLES] = 3000,
    seed: Annotated[int, options.SEED] = 0,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="Processes, one thread each, that share the methods; 1: all threads on one.",
        ),
    ] = 1,
    html: Annotated[Path, options.HTML] = Path("fairpca-report.html"),
    no_html: Annotated[bool, options.NO_HTML] = False,
    csv: Annotated[Path | None, options.CSV] = None,
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
    from fairpca.data.tables.encoder import TableEncoder
    from fairpca.report.comparing.comparison import compare_parts
    from fairpca.report.comparing.result import Settings

    options.checked("--method", chosen, method or ())
    goal = None if target is None else options.read_target(target)
    criterion = options.choice("--criterion", criterion, options.CRITERIA)
    page = None if no_html else html
    check_files(page, csv, *([data] if data else []))
    given, parts = load_parts(
        *(data, sensitive, label, drop, bins),
        keep_sensitive=keep_sensitive,
        na_values=na_values,
        categorical=categorical,
    )
    positive = None
    if parts.label is not None:
        positive = options.match_label(parts.label, positive_label, given.positive)
    elif positive_label is not None or criterion != "demographic_parity":
        raise typer.BadParameter("this needs a label column.", param_hint="--label")
    elif target is not None and options.target_needs_label(goal):
        raise typer.BadParameter(f"{target!r} needs a label column.", param_hint="--label")
    encoder = TableEncoder(
        scale=scale,
        missing=options.choice("--missing", missing, ("error", "impute")),
        categorical=tuple(categorical or ()),
        max_categories=max_categories,
    )
    settings = Settings(
        n_components=options.parse_components(n_components),
        n_unfair=tuple(n_unfair or ()),
        max_mmd=1e-3 if max_mmd is None else max_mmd,
        criterion=criterion,
        pos_label=positive,
        test_size=test_size,
        max_samples=max_samples,
        seed=seed,
        methods=tuple(method or DEFAULT),
        frontier=frontier,
        repeats=repeats,
        n_ranks=0 if no_html and csv is None else ranks,
        time_limit=time_limit or None,
        target=goal,
        missing_groups=options.choice("--missing-groups", missing_groups, options.GROUPS_MISSING),
    )
    arguments = _fit_arguments(
        data, sensitive, label, drop, bins, categorical, na_values,
        missing=missing, missing_groups=missing_groups, scale=scale,
        keep_sensitive=keep_sensitive, max_categories=max_categories, seed=seed,
    )  # fmt: skip
    with progress_bar() as update:
        comparison = compare_parts(
            parts,
            encoder=encoder,
            settings=settings,
            title=given.title,
            arguments=arguments,
            remarks=given.remarks,
            jobs=jobs,
            progress=lambda share, label: update("Comparing", share, label),
            words=in_words,
        )
    written = write_files(comparison, page, csv)
    show_comparison(comparison)
    say(*written)


def _fit_arguments(
    data: str | None,
    sensitive: list[str] | None,
    label: str | None,
    drop: list[str] | None,
    bins: list[str] | None,
    categorical: list[str] | None,
    na_values: list[str] | None,
    *,
    keep_sensitive: bool,
    missing: str,
    missing_groups: str,
    scale: bool,
    max_categories: int | None,
    seed: int,
) -> tuple[str, ...]:
    """Write the table and the roles of its columns as `fairpca fit` takes them."""
    words = [data or DEFAULT_DATASET.replace("_", "-")]
    for option, values in (
        ("--sensitive", sensitive),
        ("--label", [label] if label else None),
        ("--drop", drop),
        ("--bin", bins),
        ("--categorical", categorical),
        ("--na-values", na_values),
        ("--missing", [missing] if missing != "error" else None),
        ("--missing-groups", [missing_groups] if missing_groups != "error" else None),
        ("--max-categories", [str(max_categories)] if max_categories else None),
        ("--seed", [str(seed)] if seed else None),
    ):
        for value in values or ():
            words += [option, value]
    flags = [("--keep-sensitive", keep_sensitive), ("--no-scale", not scale)]
    return (*words, *(flag for flag, wanted in flags if wanted))
