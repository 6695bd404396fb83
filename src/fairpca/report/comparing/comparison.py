"""Plain PCA beside its fair variants on one table: what each keeps, and what it gives away.

Everything is fitted on training rows and measured on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sklearn.base import clone

from fairpca.data.labels import sorted_labels
from fairpca.data.tables.categories import describe_filled
from fairpca.data.tables.columns import as_table, count_missing
from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.tables.roles import TableParts, assign_roles, split_table
from fairpca.data.warn import collect_warnings, warn_caller
from fairpca.methods.catalog import chosen
from fairpca.methods.entry import Candidate, Facts
from fairpca.report.comparing.by_rank import RankCurves
from fairpca.report.comparing.choosing import Choices, choose_candidates, training_sample
from fairpca.report.comparing.evaluation import Evaluation
from fairpca.report.comparing.parallel import in_processes, n_processes
from fairpca.report.comparing.result import Comparison, MethodResult, Settings
from fairpca.report.comparing.splits import CheckedTable, check_table

Progress = Callable[[float, str], None]


def compare(
    table: Any,
    *,
    sensitive: Sequence[str],
    label: str | None = None,
    drop: Sequence[str] = (),
    keep_sensitive: bool = False,
    edges: Mapping[str, tuple[float, ...]] | None = None,
    encoder: TableEncoder | None = None,
    settings: Settings | None = None,
    title: str = "table",
) -> Comparison:
    """Compare plain PCA with fair PCA of both kinds on a table.

    Parameters
    ----------
    table : frame or mapping of columns
        Numbers and text; see `TableEncoder`.
    sensitive : sequence of str
        Sensitive columns, or comparisons such as ``"age>=25"``. They are no features.
    label : str, optional
        The column to predict, or a comparison such as ``"score>=0.3"``; no feature either.
    drop : sequence of str
        Further columns to leave out.
    keep_sensitive : bool
        Let sensitive columns be features.
    edges : mapping of str to tuple of float, optional
        Class boundaries of numeric sensitive columns.
    encoder : TableEncoder, optional
        An unfitted encoder with other than the default options.
    settings : Settings, optional
        How to compare.
    title : str
        What to call the table.

    Raises
    ------
    ValueError
        If a column is unknown or cannot be used, or a group is too small to be measured.

    Warns
    -----
    AdviceWarning
        Of features that tell a group or the label without error, by name.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 100)
    >>> people = {"x": rng.normal(size=200) + (group == "a"), "y": rng.normal(size=200),
    ...           "z": rng.normal(size=200), "group": group}
    >>> result = compare(people, sensitive=["group"], settings=Settings(1, max_mmd=0.1))
    >>> [method.name for method in result.methods][:2]
    ['plain PCA', 'mean matching']
    """
    table = as_table(table)
    roles = assign_roles(
        table.column_names,
        sensitive=sensitive,
        label=label,
        drop=dict.fromkeys(drop, "dropped"),
        keep_sensitive=keep_sensitive,
        edges=edges,
    )
    return compare_parts(split_table(table, roles), encoder=encoder, settings=settings, title=title)


def compare_parts(
    parts: TableParts,
    *,
    encoder: TableEncoder | None = None,
    settings: Settings | None = None,
    title: str = "table",
    remarks: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    words: Callable[[Any], str] = str,
) -> Comparison:
    """Compare on a table that has been taken apart; parameters as in `compare`.

    `remarks` are notes on how the table was read; `progress` is called with the share that is done
    and the method that comes next; `words` writes a warning for its readers. With several
    `jobs`, methods are fitted and measured in this many processes of one thread each.
    """
    settings = settings or Settings()
    with reissued_warnings(words) as notes:
        found = _compare(
            parts, clone(encoder or TableEncoder()), settings, progress, n_processes(jobs)
        )
    return replace(found, title=title, notes=(*remarks, *notes))


@contextmanager
def reissued_warnings(words: Callable[[Any], str]) -> Iterator[list[str]]:
    """Give the warnings of the block as `words` has them, once it ends, and issue them again."""
    notes: list[str] = []
    with collect_warnings() as caught:
        yield notes
    for warning in caught:
        if words(warning) not in notes:
            notes.append(words(warning))
            warn_caller(warning)  # not its text alone: advice is worded by who shows it


def _compare(
    parts: TableParts,
    encoder: TableEncoder,
    settings: Settings,
    progress: Progress | None,
    jobs: int,
) -> Comparison:
    table = check_table(parts, encoder, settings, passed_over=parts.roles.sensitive_columns)
    evaluations = (
        Evaluation(table.split(encoder, seeded), seeded)
        for seeded in (replace(settings, seed=settings.seed + i) for i in range(settings.repeats))
    )
    first = next(evaluations)
    candidates = _candidates(first.facts(table.groups), settings)
    choices: Choices = {}
    tell = _Steps(progress, len(candidates) * settings.repeats)
    if settings.target is not None:
        rows = training_sample(table, settings)
        candidates, choices = choose_candidates(
            candidates, rows, encoder, settings, tell.next, jobs
        )
        tell.n_steps = tell.done + len(candidates) * settings.repeats
    splits = [_measured(first, candidates, tell, jobs)]
    splits += [_measured(evaluation, candidates, tell, jobs) for evaluation in evaluations]
    methods = [_over_splits(found) for found in zip(*splits, strict=True)]
    methods = [m if m.further else replace(m, chosen=choices.get(m.method)) for m in methods]
    curves = _curves(first, candidates, methods) if settings.n_ranks > 0 else ()
    return replace(gathered(first, table, methods), curves=tuple(curves))


def gathered(
    evaluation: Evaluation, table: CheckedTable, methods: Sequence[MethodResult]
) -> Comparison:
    """Put results together with what they were measured on, that of the first split."""
    features: pa.Table = table.rows.X
    label = table.rows.label
    counts = ((name, count_missing(features[name])) for name in features.column_names)
    filled = {name: n for name, n in counts if n}
    if filled:
        warn_caller(describe_filled(filled))
    positive = evaluation.settings.pos_label
    if positive is None and label is not None:  # as `downstream` has it
        positive = sorted_labels(set(label.tolist()))[-1]
    split, attributes = evaluation.split, table.groups.attributes
    shown = split.test_rows[evaluation.shown]
    return Comparison(
        title="",
        methods=tuple(methods),
        settings=replace(evaluation.settings, pos_label=positive),
        n_train=len(split.train.X),
        n_test=len(split.test.X),
        n_measured=len(evaluation.compared),
        n_features=split.train.X.shape[1],
        group_counts={
            a.name: dict(zip(a.levels, a.counts.tolist(), strict=True)) for a in attributes
        },
        roles=table.roles.describe(),
        label=table.roles.label,
        bandwidth=evaluation.bandwidth,
        shown_groups={a.name: a.codes[shown] for a in attributes},
        feature_names=split.feature_names,
        notes=(),
        majority_accuracy=evaluation.majority_accuracy,
    )


def _candidates(facts: Facts, settings: Settings) -> list[Candidate]:
    """List what is fitted: every method's rows, then the further points of the frontier."""
    frontier = settings.frontier or settings.target is not None
    found = [
        candidate
        for method in chosen(settings.methods)
        for candidate in method.candidates(facts, frontier=frontier)
    ]
    return sorted(found, key=lambda candidate: candidate.further)


class _Steps:
    """Tell how much is done, and what comes next."""

    def __init__(self, tell: Progress | None, n_steps: int) -> None:
        self.tell, self.n_steps, self.done = tell, n_steps, 0

    def next(self, label: str) -> None:
        if self.tell is not None:
            self.tell(self.done / self.n_steps, label)
        self.done += 1


def _measured(
    evaluation: Evaluation, candidates: Sequence[Candidate], tell: _Steps, jobs: int
) -> list[MethodResult]:
    """Fit and measure the candidates, in several processes where that is asked for."""
    if jobs == 1:
        found = []
        for candidate in candidates:
            tell.next(candidate.trial.label)
            found.append(evaluation.measure(candidate))
        return found
    done: dict[int, MethodResult] = {}
    calls = [(evaluation, i, candidate) for i, candidate in enumerate(candidates)]
    for i, result, caught in in_processes(_measured_there, calls, jobs):
        tell.next(candidates[i].trial.label)
        done[i] = result
        for text in caught:
            warn_caller(text)
    return [done[i] for i in range(len(candidates))]


def _measured_there(
    evaluation: Evaluation, place: int, candidate: Candidate
) -> tuple[int, MethodResult, list[str]]:
    """Measure in another process; return its warnings, which would be lost there."""
    with collect_warnings() as caught:
        result = evaluation.measure(candidate)
    return place, result, [str(warning) for warning in caught]


def _curves(
    evaluation: Evaluation, candidates: Sequence[Candidate], found: Sequence[MethodResult]
) -> Iterator[RankCurves]:
    """Measure plain PCA and the balanced methods with 1, 2, … components on the first split."""
    balanced = [
        candidate
        for candidate, result in zip(candidates, found, strict=True)
        if candidate.method.aim != "hide" and not candidate.further and not result.problem
    ]
    for candidate in balanced if len(balanced) > 1 else ():
        curves = evaluation.by_rank(candidate)
        if curves is not None:
            yield curves


def _over_splits(found: Sequence[MethodResult]) -> MethodResult:
    """Put a method's results on all splits together under the first split on which it worked."""
    worked = [result for result in found if not result.problem]
    first = worked[0] if worked else found[0]
    if first is not found[0]:  # its arrays would be of other rows than everyone else's
        worked[0] = first = first.figures_only()
    failed = [result.problem for result in found if result.problem]
    remark = first.remark
    if worked and failed:
        why = f"Could not be fitted on {len(failed)} of {len(found)} splits: {failed[0]}"
        remark = f"{remark} {why}".strip()
    others = tuple(result.figures_only() for result in worked[1:])
    return replace(first, remark=remark, others=others)
