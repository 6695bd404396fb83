"""``fairpca report``: a fitted model measured on a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fairpca.cli import options
from fairpca.cli.comparison import check_files, print_sheet, show_comparison, write_files
from fairpca.cli.console import command, in_words, progress_bar, say
from fairpca.cli.inputs import load_parts
from fairpca.cli.labels import match_label, no_label

if TYPE_CHECKING:
    from fairpca.models.files import Model


@command
def report(
    *,
    model: options.Model,
    data: options.Data,
    groups: options.GroupOptions,
    positive_label: options.PositiveLabel = None,
    missing_groups: Annotated[options.MissingGroups | None, options.MISSING_GROUPS] = None,
    seed: options.Seed = 0,
    measuring: options.Measuring,
) -> None:
    """Measure a fitted MODEL on the rows of DATA, beside plain PCA, and write an HTML page of it.

    Groups and label are those the model was fitted with, unless others are named. Plain PCA is
    fitted on a random part of the rows; both are measured on the others, as `fairpca compare` does.

    For example:

    `fairpca report model.fairpca people.csv`

    `fairpca report model.fairpca newer.parquet -s sex -s "age>=40" -y hired --html audit.html`
    """
    from fairpca.models.files import load_model
    from fairpca.report.comparing.audit import audit
    from fairpca.report.comparing.result import Settings
    from fairpca.report.page import sheets

    check_files(measuring, model, data)
    loaded = load_model(model)
    own = getattr(loaded.estimator, "pos_label", None)
    known_label = own is not None and groups.label in (None, loaded.details.get("label"))
    groups = _filled_in(groups, loaded, data)
    text = [] if loaded.encoder is None else _text_columns(loaded)
    features = options.FeatureOptions(keep_sensitive=True, categorical=text)
    given, parts = load_parts(data, groups, features)
    if parts.label is not None:
        known = own if known_label else given.positive
        own = match_label(parts.label, positive_label, known)
    elif positive_label is not None:
        raise no_label("--positive-label")
    if missing_groups is None:
        stored = getattr(loaded.estimator, "missing_groups", "error")
        missing_groups = options.MissingGroups(stored)
    settings = Settings(
        pos_label=own,
        test_size=measuring.test_size,
        max_samples=measuring.max_samples,
        seed=seed,
        missing_groups=missing_groups.plain,
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
    written = write_files(found, measuring)
    show_comparison(found)
    for sheet in (
        sheets.group_loss_sheet(found),
        sheets.loading_sheet(found),
        sheets.communality_sheet(found, most=10),
    ):
        print_sheet(sheet)
    say(*written)


def _filled_in(groups: options.GroupOptions, model: Model, data: str) -> options.GroupOptions:
    """Take what is not named from what the model was fitted with."""
    from fairpca.data.files.kinds import is_text

    details = model.details
    groups = replace(groups, label=groups.label or details.get("label"))
    if not groups.na_values and is_text(data):
        groups = replace(groups, na_values=list(details.get("na_values", ())))
    if groups.sensitive or groups.bin:
        return groups
    edges = details.get("edges", {})
    return replace(
        groups,
        sensitive=[name for name in details.get("sensitive", ()) if name not in edges],
        bin=[f"{name}={','.join(map(repr, cuts))}" for name, cuts in edges.items()],
    )


def _text_columns(model: Model) -> list[str]:
    """Name the columns that the model knows as text: in a file they may look like numbers."""
    encoder: Any = model.encoder
    kinds = zip(encoder.feature_names_in_, encoder.kinds_, strict=True)
    return [name for name, kind in kinds if kind == "text"]
