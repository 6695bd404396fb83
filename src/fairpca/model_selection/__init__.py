"""Choosing settings by cross-validation: the most variance at a fairness target.

`FairnessTargetCV` fits settings fold by fold (`folds`), measures them on held-out rows (`held_out`,
`targets`) and chooses by a rule (`rule`). It may import the data room, metrics and estimators.
"""

from fairpca.model_selection.rule import SettingChoice, choose_setting
from fairpca.model_selection.target_cv import FairnessTargetCV, FairnessTargetWarning
from fairpca.model_selection.targets import Target, parse_target

__all__ = [
    "FairnessTargetCV",
    "FairnessTargetWarning",
    "SettingChoice",
    "Target",
    "choose_setting",
    "parse_target",
]
