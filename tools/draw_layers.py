"""Draw the layers of the package from the contract in pyproject.toml: `python tools/draw_layers.py` writes an SVG."""

import tomllib
from html import escape
from pathlib import Path

from glbandits.display.palette import BLUE, GREEN, GREY, LIGHT_GREY, ORANGE, PINK, SKY_BLUE

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "layers.svg"
WIDTH, ROW, GAP, LABEL = 760, 34, 6, 170
PARTS = (  # the last layer of each part, from the top
    ("what users run", "service_logs"),
    ("uses of a bandit", "parallel"),
    ("a bandit", "bandit"),
    ("policies and problems", "policy"),
    ("features", "features"),
    ("numerics, compilation", "records"),
    ("no dependencies", "version"),
)
COLOURS = (BLUE, SKY_BLUE, GREEN, ORANGE, PINK, GREY, LIGHT_GREY)


def main() -> None:
    """Write docs/images/layers.svg."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["glbandits"])
    height = len(layers) * ROW + 30
    shapes, part, first = [], 0, 0
    for index, layer in enumerate(layers):
        names = [name.strip() for name in layer.split("|")]
        width = (WIDTH - LABEL - GAP * (len(names) - 1)) / len(names)
        y = index * ROW
        for column, name in enumerate(names):
            x = LABEL + column * (width + GAP)
            size = f'x="{x:.0f}" y="{y}" width="{width - 1:.0f}" height="{ROW - GAP}"'
            shapes.append(f'<rect {size} rx="5" fill="{COLOURS[part]}" fill-opacity="0.25" stroke="{COLOURS[part]}"/>')
            shapes.append(_text(x + width / 2, y + 19, name, "middle"))
        if PARTS[part][1] in names:
            shapes.append(_text(LABEL - 12, (first * ROW + y + ROW - GAP) / 2 + 5, PARTS[part][0], "end"))
            part, first = part + 1, index + 1
    shapes.append(_text(LABEL, height - 8, "A module imports only from rows below its own.", "start"))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
    lines = [f'{head} font-family="sans-serif" font-size="14">', '<rect width="100%" height="100%" fill="white"/>']
    TARGET.write_text("\n".join([*lines, *shapes, "</svg>", ""]), encoding="utf-8")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'


if __name__ == "__main__":
    main()
