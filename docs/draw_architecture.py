"""Draw the rooms of the package and the imports between them, from the code as it stands.

    python docs/draw_architecture.py

Writes ``docs/_static/architecture.svg``. The documentation is built with it, so the picture is as
new as the code. The order of the floors is the import contract in ``pyproject.toml``.
"""

import tomllib
from pathlib import Path

import grimp
import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fairpca"
OUT = Path(__file__).parent / "_static" / "architecture.svg"
WIDTH, FLOOR, GAP = 12.0, 1.15, 0.55
EDGE, FILL, INNER, ARROW = "#33475b", "#eef3f8", "#ffffff", "#7a8ca0"


def floors() -> list[list[str]]:
    """Return the rooms of each floor, from the top, as the import contract names them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    rows = [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]
    return [shown for row in rows if (shown := [name for name in row if (SOURCE / name).is_dir()])]


def count_lines(folder: Path) -> int:
    """Return the lines of Python below a folder."""
    return sum(len(file.read_text("utf-8").splitlines()) for file in folder.rglob("*.py"))


def imports(rooms: set[str]) -> set[tuple[str, str]]:
    """Return the pairs of rooms of which the first imports the second."""
    graph = grimp.build_graph("fairpca")
    found = set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = tuple(name.split(".")[1] for name in (module, imported) if "." in name)
            if len(pair) == 2 and pair[0] != pair[1] and rooms.issuperset(pair):
                found.add(pair)
    return found


def without_implied(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Leave out the pairs that a longer way already shows."""
    below = {above: {b for a, b in pairs if a == above} for above, _ in pairs}

    def reach(room: str) -> set[str]:
        return below.get(room, set()).union(*(reach(b) for b in below.get(room, set())))

    return {(a, b) for a, b in pairs if not any(b in reach(c) for c in below[a] - {b})}


def draw() -> None:
    """Draw a box per room, floor by floor, and an arrow where a room imports another."""
    rows = floors()
    figure, axis = plt.subplots(figsize=(WIDTH, len(rows) * (FLOOR + GAP)))
    place = {}
    for level, row in enumerate(reversed(rows)):
        parts = {
            name: sorted(p.name for p in (SOURCE / name).iterdir() if (p / "__init__.py").exists())
            for name in row
        }
        shares = [max(0.5 + len(name) / 12, 0.6 * len(parts[name])) for name in row]
        x, y = 0.0, level * (FLOOR + GAP)
        for name, share in zip(row, shares, strict=True):
            width = WIDTH * share / sum(shares) - 0.15
            place[name] = (x, y, width)
            axis.add_patch(_box(x, y, width, FLOOR, FILL))
            top = y + FLOOR - 0.3
            axis.text(x + 0.12, top, f"{name}/", fontsize=11, weight="bold", color=EDGE)
            lines = f"{count_lines(SOURCE / name):,} lines"
            axis.text(x + width - 0.1, top, lines, fontsize=8, ha="right", color=EDGE)
            for j, part in enumerate(parts[name]):
                step = (width - 0.12) / len(parts[name])
                left = x + 0.1 + j * step
                axis.add_patch(_box(left, y + 0.12, step - 0.08, 0.5, INNER))
                axis.text(
                    left + step / 2 - 0.04,
                    y + 0.37,
                    f"{part}/",
                    fontsize=8,
                    ha="center",
                    va="center",
                )
            x += width + 0.15
    arrows = imports(set(place))
    for above, below in arrows:
        if place[below][1] >= place[above][1]:
            raise SystemExit(f"{above} imports {below}, which is not below it.")
    for above, below in sorted(without_implied(arrows)):
        (x0, y0, w0), (x1, y1, w1) = place[above], place[below]
        left, right = max(x0, x1), min(x0 + w0, x1 + w1)
        start = end = (left + right) / 2  # straight down where the rooms overlap
        if left >= right:
            start, end = x0 + w0 / 2, x1 + w1 / 2
        axis.add_patch(
            FancyArrowPatch(
                (start, y0), (end, y1 + FLOOR),
                arrowstyle="-|>", mutation_scale=12, color=ARROW, linewidth=1.2, zorder=0,
            )
        )  # fmt: skip
    axis.set(xlim=(-0.1, WIDTH), ylim=(-0.2, len(rows) * (FLOOR + GAP)))
    axis.axis("off")
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def _box(x: float, y: float, width: float, height: float, color: str) -> FancyBboxPatch:
    style = "round,pad=0,rounding_size=0.08"
    return FancyBboxPatch((x, y), width, height, boxstyle=style, fc=color, ec=EDGE, lw=1)


if __name__ == "__main__":
    draw()
