"""Sentences that go with the table: settings chosen, what is blank and why, the baseline."""

from __future__ import annotations

import math
from itertools import combinations

from fairpca.report.comparing.result import ChosenSetting, Comparison


def headlines(comparison: Comparison) -> list[str]:
    """Return sentences that go with the table: the attribute leaked most, and the baseline."""
    lines = choice_lines(comparison)
    if comparison.compared:
        lines.append(
            f"Criterion {comparison.settings.criterion}: MMD², leakage and their p-values compare "
            f"groups {comparison.compared}."
        )
    measured = [m for m in comparison.main if m.leakage]
    if len(comparison.group_counts) > 1 and measured:
        shown = ", ".join(f"{m.name} {m.worst_attribute}" for m in measured)
        lines.append(f"The leakage shown is of the attribute that is predicted best: {shown}.")
    lines += _blanks(comparison)
    if not math.isnan(comparison.majority_accuracy):
        lines.append(
            "Always naming the most frequent label has accuracy "
            f"{comparison.majority_accuracy:.3f}."
        )
    return lines


def _blanks(comparison: Comparison) -> list[str]:
    """Say which measures are blank, of how many splits, and why; once for all methods alike."""
    methods_of: dict[tuple[str, int], list[str]] = {}
    measured = [m for m in comparison.methods if not m.problem]
    for method in measured:
        for reason, count in method.blanks.items():
            methods_of.setdefault((reason, count), []).append(method.name)
    lines = []
    for (reason, count), names in methods_of.items():
        what, _, why = reason.partition(": ")
        several = comparison.settings.repeats > 1
        of = f" of {count} of {comparison.settings.repeats} splits" if several else ""
        whose = "" if len(names) == len(measured) else f" for {', '.join(names)}"
        lines.append(f"Left blank{of}: {what}{whose}, since {why}")
    return lines


def choice_lines(comparison: Comparison) -> list[str]:
    """Say of each method which setting was chosen, and whether it meets the target."""
    target = comparison.settings.target
    chosen_for = [(m, m.chosen) for m in comparison.methods if m.chosen is not None]
    if target is None or not chosen_for:
        return []
    goal = f"{target.name} <= {target.limit:g}"
    lines = [
        f"Target {goal}: of each method the setting that keeps most variance with a mean plus one "
        f"standard error within the limit, by {chosen_for[0][1].n_folds}-fold cross-validation of "
        "training rows."
    ]
    lines += [f"  {method.method}: {_outcome(chosen)}" for method, chosen in chosen_for]
    met = [(chosen.kept, method) for method, chosen in chosen_for if chosen.met]
    if met:
        kept, best = max(met, key=lambda pair: pair[0])
        lines.append(
            f"Most variance at the target: {best.name} ({best.method}), {100 * kept:.1f} % by "
            "cross-validation."
        )
    elif any(chosen.problem for _, chosen in chosen_for):
        lines.append(f"No method is known to meet {goal}; of some it could not be measured.")
    else:
        lines.append(f"No method meets {goal}: every row of the table is less fair than asked for.")
    if target.name == "mmd_squared":
        lines.append(
            "The MMD² of the target is unbiased; that of the table is of one held-out part, and "
            f"larger by chance alone, by up to {_bias(comparison):.2g}."
        )
    return lines


def _outcome(chosen: ChosenSetting) -> str:
    if chosen.problem:
        return f"could not be measured: {chosen.problem}"
    part = f" in {chosen.n_measured} of {chosen.n_folds} folds"
    nearest = "; the nearest is shown" if chosen.n_tried > 1 else ""
    of = f"of {chosen.n_tried} settings" if chosen.n_tried > 1 else "the only setting"
    return (
        f"{chosen.label} ({of}), {chosen.unfairness:.4g} ± "
        f"{chosen.standard_error:.2g}{part if chosen.n_measured < chosen.n_folds else ''}, "
        + ("meets it" if chosen.met else f"does NOT meet it{nearest}")
    )


def _bias(comparison: Comparison) -> float:
    """Bound the bias of MMD² of as many rows: 1/n + 1/m, added up over pairs of groups."""
    total = 0.0
    for counts in comparison.group_counts.values():
        share = comparison.n_measured / sum(counts.values())
        total += sum(1 / a + 1 / b for a, b in combinations(counts.values(), 2)) / share
    return total
