"""Draw how several rankers share a PostgreSQL store: `python tools/draw_rankers.py` writes an SVG."""

from html import escape
from pathlib import Path

from glbandits.common.display.palette import BLUE, GREEN, GREY, ORANGE

TARGET = Path(__file__).resolve().parent.parent / "docs" / "images" / "postgres-rankers.svg"
WIDTH, HEIGHT, BOX = 520, 400, 150
COLUMNS = (10, 185, 360)


def main() -> None:
    """Write docs/images/postgres-rankers.svg."""
    shapes = [
        _box(160, 10, 200, GREY, "your programs", "rank and reward requests"),
        _box(160, 90, 200, GREY, "load balancer", ""),
    ]
    for number, x in enumerate(COLUMNS, start=1):
        shapes.append(_box(x, 180, BOX, BLUE, f"glb serve {number}", "decides; no own state"))
        shapes.append(_arrow(260, 136, x + BOX // 2, 176))
        shapes.append(_arrow(x + BOX // 2, 226, x + BOX // 2, 286))
    shapes += [
        _arrow(260, 56, 260, 86),
        _box(10, 290, 500, GREEN, "PostgreSQL", "events, models, configurations, keys"),
        _box(10, 350, 500, ORANGE, "one of the servers holds the learner lock", "it learns and stores models"),
        _arrow(260, 350, 260, 338),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
    marker = f'<defs><marker id="a" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto"><path d="M0,0 L6,3 L0,6 z" fill="{GREY}"/></marker></defs>'  # noqa: E501
    lines = [
        f'{head} font-family="sans-serif" font-size="15">',
        marker,
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    TARGET.write_text("\n".join([*lines, *shapes, "</svg>", ""]), encoding="utf-8")


def _box(x: int, y: int, width: int, colour: str, title: str, note: str) -> str:
    middle = x + width / 2
    style = f'rx="6" fill="{colour}" fill-opacity="0.2" stroke="{colour}"'
    rect = f'<rect x="{x}" y="{y}" width="{width}" height="46" {style}/>'
    text = f'<text x="{middle:.0f}" y="{y + (20 if note else 28)}" text-anchor="middle">{escape(title)}</text>'
    small = (
        f'<text x="{middle:.0f}" y="{y + 38}" text-anchor="middle" font-size="13">{escape(note)}</text>' if note else ""
    )
    return rect + text + small


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{GREY}" stroke-width="1.5" marker-end="url(#a)"/>'


if __name__ == "__main__":
    main()
