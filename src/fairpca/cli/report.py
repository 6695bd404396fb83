"""``fairpca report``: a fitted model judged on a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairpca.cli import options
from fairpca.cli.comparison_files import check_files, write_files
from fairpca.cli.comparison_table import print_sheet, show_comparison
from fairpca.cli.console import command, in_words, say
from fairpca.cli.inputs import load_parts
from fairpca.cli.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fairpca.models.files import Model

__all__ = ["report"]


@command
def report(
    model: Annotated[Path, options.MODEL],
    data: Annotated[str, options.DATA],
    sensitive: Annotated[list[str] | None, options.SENSITIVE] = None,
    label: Annotated[str | None, options.LABEL] = None,
    bins: Annotated[list[str] | None, options.BIN] = None,
    positive_label: Annotated[str | None, options.POSITIVE_LABEL] = None,
    missing_groups: Annotated[str | None, options.MISSING_GROUPS] = None,
    na_values: Annotated[list[str] | None, options.NA_VALUES] = None,
    test_size: Annotated[float, options.TEST_SIZE] = 0.3,
    max_samples: Annotated[int, options.MAX_SAMPLES] = 3000,
    seed: Annotated[int, options.SEED] = 0,
    html: Annotated[Path, options.HTML] = Path("fairpca-report.html"),
    no_html: Annotated[bool, options.NO_HTML] = False,
    csv: Annotated[Path | None, options.CSV] = None,
) -> None:
    """Judge a fitted MODEL on the rows of DATA, beside plain PCA, and write an HTML page about it.

    Groups and label are those the model was fitted with, unless others are named. Plain PCA is
    fitted on a random part of the rows; both are measured on the others, as `fairpca compare` does.

    For example:

    `fairpca report model.fairpca people.csv`

    `fairpca report model.fairpca newer.parquet -s sex -s "age>=40" -y hired --html audit.html`
    """
    from fairpca.models.apply import na_values_of
    from fairpca.models.files import load_model
    from fairpca.report.comparing.audit import audit
    from fairpca.report.comparing.result import Settings
    from fairpca.report.page import sheets

    page = None if no_html else html
    check_files(page, csv, model, data)
    loaded = load_model(model)
    roles = _roles(loaded, sensitive, label, bins)
    text = [] if loaded.encoder is None else _text_columns(loaded)
    given, parts = load_parts(
        *(data, roles["sensitive"], roles["label"], None, roles["bins"]),
        keep_sensitive=True,
        na_values=na_values or na_values_of(loaded, data),
        categorical=text,
    )
    positive = getattr(loaded.estimator, "pos_label", None)
    if parts.label is not None:
        own = positive is not None and label in (None, loaded.details.get("label"))
        known = positive if own else given.positive
        positive = options.match_label(parts.label, positive_label, known)
    elif positive_label is not None:
        raise typer.BadParameter("this needs a label column.", param_hint="--label")
    if missing_groups is None:
        missing_groups = getattr(loaded.estimator, "missing_groups", "error")
    settings = Settings(
        pos_label=positive,
        test_size=test_size,
        max_samples=max_samples,
        seed=seed,
        missing_groups=options.choice("--missing-groups", missing_groups, options.GROUPS_MISSING),
    )
    with progress_bar() as update:
        found = audit(
            loaded,
            given.table,
            parts,
            settings=settings,
            name=f"{type(loaded.estimator).__name__} of {model.name}",
            title=given.title,
            remarks=given.remarks,
            progress=lambda share, text: update("Measuring", share, text),
            words=in_words,
        )
    written = write_files(found, page, csv)
    show_comparison(found)
    for sheet in (
        sheets.group_loss_sheet(found),
        sheets.loading_sheet(found),
        sheets.communality_sheet(found, most=10),
    ):
        print_sheet(sheet)
    say(*written)


def _roles(
    model: Model, sensitive: list[str] | None, label: str | None, bins: list[str] | None
) -> Mapping[str, Any]:
    """Take what is not named from what the model was fitted with."""
    details = model.details
    edges = details.get("edges", {})
    stored = [f"{name}={','.join(map(repr, cuts))}" for name, cuts in edges.items()]
    if sensitive or bins:
        return {"sensitive": sensitive, "bins": bins, "label": label or details.get("label")}
    names = [name for name in details.get("sensitive", ()) if name not in edges]
    return {"sensitive": names, "bins": stored, "label": label or details.get("label")}


def _text_columns(model: Model) -> list[str]:
    """Name the columns that the model knows as text: in a file they may look like numbers."""
    encoder: Any = model.encoder
    kinds = zip(encoder.feature_names_in_, encoder.kinds_, strict=True)
    return [name for name, kind in kinds if kind == "text"]
