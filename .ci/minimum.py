"""Print the oldest version of each dependency that pyproject.toml allows, as pip requirements."""

import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
print(*(requirement.replace(">=", "==") for requirement in project["dependencies"]))
