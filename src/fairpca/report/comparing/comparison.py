"""Plain PCA beside its fair variants on one table: what each keeps, and what it gives away.

Everything is fitted on training rows and measured on the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fairpca.data.groups import Groups
from fairpca.data.labels import sorted_labels
from fairpca.data.tables.categories import describe_filled
from fairpca.data.tables.columns import as_table, count_missing
from fairpca.data.tables.encoder import TableEncoder
from fairpca.data.tables.giveaways import warn_of_giveaways
from fairpca.data.tables.roles import TableParts, assign_roles, check_attributes, split_table
from fairpca.data.warn import warn_caller
from fairpca.methods.catalogue import chosen
from fairpca.methods.entry import Facts, Method, Trial
from fairpca.report.comparing.bench import Bench
from fairpca.report.comparing.by_rank import RankCurves
from fairpca.report.comparing.choosing import Choices, TrainingTable, choose_trials
from fairpca.report.comparing.parallel import in_processes, n_processes
from fairpca.report.comparing.result import Comparison, MethodResult, Settings
from fairpca.report.comparing.splits import (
    check_sizes,
    collected_warnings,
    groups_of,
    split_bench,
    split_rows,
    two_classes,
)

__all__ = [
    "Progress",
    "compare",
    "compare_parts",
    "described",
]

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
    arguments: Sequence[str] = (),
    remarks: Sequence[str] = (),
    jobs: int = 1,
    progress: Progress | None = None,
    words: Callable[[Any], str] = str,
) -> Comparison:
    """Compare on a table that has been taken apart; parameters as in `compare`.

    `arguments` are the table and roles as `fairpca fit` takes them, to show how to fit each method;
    `remarks` are notes on how the table was read; `progress` is told the share that is done and the
    method that comes next; `words` writes a warning for those who will read it. With several `jobs`
    methods are fitted and measured in this many processes of one thread each.
    """
    settings = settings or Settings()
    with collected_warnings(words) as notes:
        found = _compare(
            parts, clone(encoder or TableEncoder()), settings, title, progress, n_processes(jobs)
        )
    return replace(found, arguments=tuple(arguments), notes=(*remarks, *notes))


def _compare(
    parts: TableParts,
    encoder: TableEncoder,
    settings: Settings,
    title: str,
    progress: Progress | None,
    jobs: int,
) -> Comparison:
    check_attributes(parts)
    encoder.check(parts.features)
    groups = groups_of(parts, settings)
    check_sizes(groups, parts.features.num_rows, settings)
    label = two_classes(parts, settings.pos_label)
    warn_of_giveaways(
        parts,
        categorical=encoder.categorical,
        positive=settings.pos_label,
        passed_over=parts.roles.sensitive_columns,
    )
    benches = (
        split_bench(parts, groups, label, encoder, replace(settings, seed=settings.seed + repeat))
        for repeat in range(settings.repeats)
    )
    first, names, test = next(benches)
    trials = _trials(first.facts(groups), settings)
    choices: Choices = {}
    tell = _Steps(progress, len(trials) * settings.repeats)
    if settings.target is not None:
        table = _training_table(parts, groups, label, encoder, settings)
        trials, choices = _chosen(trials, table, settings, tell, jobs)
        tell.n_steps = tell.done + len(trials) * settings.repeats
    splits = [_measured(first, trials, tell, jobs)]
    splits += [_measured(bench, trials, tell, jobs) for bench, _, _ in benches]
    methods = [_together(found) for found in zip(*splits, strict=True)]
    methods = [m if m.further else replace(m, chosen=choices.get(m.method)) for m in methods]
    curves = _curves(first, trials, methods) if settings.n_ranks > 0 else ()
    found = described(first, test, groups, parts, names, methods)
    return replace(found, title=title, curves=tuple(curves))


def described(
    bench: Bench,
    test: NDArray[np.intp],
    groups: Groups,
    parts: TableParts,
    names: tuple[str, ...],
    methods: Sequence[MethodResult],
) -> Comparison:
    """Put results together with what they were measured on.

    Parameters
    ----------
    bench : Bench
        Of the first split.
    test : ndarray of shape (n_test,)
        Its held-out rows of the table.
    groups : Groups
        Of all rows.
    parts : TableParts
        The table.
    names : tuple of str
        Of the encoded columns.
    methods : sequence of MethodResult
    """
    counts = ((name, count_missing(parts.features[name])) for name in parts.features.column_names)
    filled = {name: n for name, n in counts if n}
    if filled:
        warn_caller(describe_filled(filled))
    positive = bench.settings.pos_label
    if positive is None and parts.label is not None:  # as `downstream` has it
        positive = sorted_labels(set(parts.label.tolist()))[-1]
    return Comparison(
        title="",
        methods=tuple(methods),
        settings=replace(bench.settings, pos_label=positive),
        n_train=len(bench.train.X),
        n_test=len(bench.test.X),
        n_measured=len(bench.compared),
        n_features=bench.train.X.shape[1],
        group_counts={
            a.name: dict(zip(a.levels, a.counts.tolist(), strict=True)) for a in groups.attributes
        },
        roles=parts.roles.describe(),
        label=parts.roles.label,
        bandwidth=bench.bandwidth,
        shown_groups={a.name: a.codes[test[bench.shown]] for a in groups.attributes},
        feature_names=names,
        notes=(),
        majority_accuracy=bench.majority_accuracy,
    )


def _trials(facts: Facts, settings: Settings) -> list[tuple[Method, Trial, bool]]:
    """List what is fitted: every method's rows, then the further points of the frontier."""
    main, further = [], []
    for method in chosen(settings.methods):
        rows, points = method.trials(
            facts, frontier=settings.frontier or settings.target is not None
        )
        main += [(method, trial, False) for trial in rows]
        further += [(method, trial, True) for trial in points]
    return main + further


def _training_table(
    parts: TableParts,
    groups: Groups,
    label: NDArray[Any] | None,
    encoder: TableEncoder,
    settings: Settings,
) -> TrainingTable:
    """Return the training rows of the first split, before they are encoded."""
    train, _ = split_rows(groups, label, settings)
    sensitive = {name: values[train] for name, values in parts.sensitive.items()}
    rows = TrainingTable(
        parts.features.take(train), sensitive, None if label is None else label[train], encoder
    )
    return rows.sample(groups.take(train), settings.seed)


def _chosen(
    trials: Sequence[tuple[Method, Trial, bool]],
    table: TrainingTable,
    settings: Settings,
    tell: _Steps,
    jobs: int,
) -> tuple[list[tuple[Method, Trial, bool]], Choices]:
    """Keep of each method's rows the one chosen; the others are further points, if asked for."""
    by_method: dict[str, tuple[Method, list[Trial]]] = {}
    for method, trial, _ in trials:
        by_method.setdefault(method.name, (method, []))[1].append(trial)
    kept, choices = choose_trials(list(by_method.values()), table, settings, tell.next, jobs)
    main = [(method, trial, False) for method, trial in kept]
    shown = {(method.name, trial.label) for method, trial in kept}
    rest = [
        (method, trial, True)
        for method, trial, _ in trials
        if (method.name, trial.label) not in shown
    ]
    return main + (rest if settings.frontier else []), choices


class _Steps:
    """Tell how much is done, and what comes next."""

    def __init__(self, tell: Progress | None, n_steps: int) -> None:
        self.tell, self.n_steps, self.done = tell, n_steps, 0

    def next(self, label: str) -> None:
        if self.tell is not None:
            self.tell(self.done / self.n_steps, label)
        self.done += 1


def _measured(
    bench: Bench, trials: Sequence[tuple[Method, Trial, bool]], tell: _Steps, jobs: int
) -> list[MethodResult]:
    """Fit and measure the trials, in several processes where that is asked for."""
    found: dict[int, MethodResult] = {}
    calls = [(bench, i, trial) for i, trial in enumerate(trials)]
    for i, result, told in in_processes(_measured_there, calls, jobs) if jobs > 1 else ():
        tell.next(trials[i][1].label)
        found[i] = result
        for text in told:
            warn_caller(text)
    for i, (method, trial, further) in enumerate(trials):
        if i not in found:
            tell.next(trial.label)
            found[i] = bench.measure(method, trial, further=further)
    return [found[i] for i in range(len(trials))]


def _measured_there(
    bench: Bench, place: int, trial: tuple[Method, Trial, bool]
) -> tuple[int, MethodResult, list[str]]:
    """Measure in another process; return its warnings, which would be lost there."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = bench.measure(trial[0], trial[1], further=trial[2])
    hidden = (DeprecationWarning, FutureWarning)
    return place, result, [str(w.message) for w in caught if not issubclass(w.category, hidden)]


def _curves(
    bench: Bench, trials: Sequence[tuple[Method, Trial, bool]], found: Sequence[MethodResult]
) -> Iterator[RankCurves]:
    """Measure plain PCA and the balanced methods with 1, 2, … components on the first split."""
    balanced = [
        (method, trial)
        for (method, trial, further), result in zip(trials, found, strict=True)
        if method.aim != "hide" and not further and not result.problem
    ]
    for method, trial in balanced if len(balanced) > 1 else ():
        curves = bench.by_rank(method, trial)
        if curves is not None:
            yield curves


def _together(found: Sequence[MethodResult]) -> MethodResult:
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
