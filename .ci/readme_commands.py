"""Print the shell commands of README.md, one a line, as a newcomer would type them."""

import re
from pathlib import Path

text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
for block in re.findall(r"^```bash\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
    for line in block.splitlines():
        command = line.split("  #")[0].strip()
        if command:
            print(command)
