"""Choosing settings by cross-validation: the most variance at a fairness target."""

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
