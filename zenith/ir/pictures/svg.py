"""SVG: a drawing as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from zenith.ir.graph import Graph
from zenith.ir.pictures import graphviz, layout
from zenith.ir.pictures.drawing import Box, Panel, panel_of
from zenith.ir.pictures.layout import Placement, Point

WIDEST = 1000  # pixels of a picture's width: a notebook's cell
_LETTER, _LINE, _MARGIN = 6.7, 14.0, 7.0  # pixels: width and height of a letter, space inside a box
_HEAD = 6.5  # pixels: length of an arrow's head
_STACK = 4.0  # pixels between the rectangles of a stack
_EDGE = "#6b7280"
OPEN = (
    "for(const n of this.dataset.opens.split(' ')){const d=this.closest('.zenith-picture').querySelector("
    "':scope>details[data-panel=\"'+n+'\"]');d.open=!d.open;if(d.open)d.scrollIntoView({block:'nearest'})}"
)  # the panels of the box that is clicked


def to_svg(graph: Graph) -> str:
    """The uppermost level of a graph as an SVG picture; a notebook that shows no HTML shows it."""
    return svg(panel_of(graph))


def svg(panel: Panel, opens: bool = False) -> str:
    """A drawing, at most ``WIDEST``; with ``opens`` boxes open the panels that follow it in the page."""
    placed = _placed(panel)
    whole, shown = (placed.width, placed.height), min(1.0, WIDEST / placed.width)
    width, height = (math.floor(size * shown) if shown < 1 else size for size in whole)
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {whole[0]:.0f} {whole[1]:.0f}"'
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="11">',
        f"<title>{escape(panel.title)}</title>",
        '<rect class="page" width="100%" height="100%" fill="#ffffff"/>',
        *(_edge(curve) for curve in placed.curves),
        *(_box(box, corner, opens) for box, corner in zip(panel.boxes, placed.corners, strict=True)),
        "</svg>",
    ])  # fmt: skip


def _placed(panel: Panel) -> Placement:
    """Graphviz's places where it is there and needs no more than a page's width, or else our own."""
    arguments = [_size(box) for box in panel.boxes], panel.edges, [box.single for box in panel.boxes]
    if graphviz.is_installed() and (placed := graphviz.arrange(*arguments)).width <= layout.PAGE:
        return placed
    return layout.arrange(*arguments)


def _size(box: Box) -> Point:
    stack = _STACK * (len(box.lines) > 1 and box.name == "repeat")
    width = max(map(len, box.lines)) * _LETTER + 2 * _MARGIN + stack
    return width, len(box.lines) * _LINE + 2 * _MARGIN + stack


def _edge(curve: Sequence[Point]) -> str:
    """A line from box to box, with the head of an arrow."""
    (x, y), text = curve[0], [f"{x:.1f},{y:.1f}" for x, y in curve[1:]]
    bends = " ".join("C" + " ".join(text[i : i + 3]) for i in range(0, len(text), 3))
    line = f'<path class="edge" d="M{x:.1f},{y:.1f} {bends}" fill="none" stroke="{_EDGE}"/>'
    (x1, y1), (x2, y2) = next(p for p in reversed(curve[:-1]) if p != curve[-1]), curve[-1]
    angle = math.atan2(y2 - y1, x2 - x1)
    corners = [(x2 - _HEAD * math.cos(angle + turn), y2 - _HEAD * math.sin(angle + turn)) for turn in (-0.45, 0.45)]
    head = " ".join(f"L{x:.1f},{y:.1f}" for x, y in corners)
    return f'{line}<path d="M{x2:.1f},{y2:.1f} {head} z" fill="{_EDGE}"/>'


def _box(box: Box, corner: Point, opens: bool) -> str:
    (x, y), (width, height) = corner, _size(box)
    stack = _STACK if box.name == "repeat" else 0.0
    behind = _rectangle(x + stack, y + stack, width - stack, height - stack, box.color, "behind") if stack else ""
    parts = [
        "" if not box.hint else f"<title>{escape(box.hint)}</title>",
        behind,
        _rectangle(x, y, width - stack, height - stack, box.color, "box"),
        *(_text(line, x + _MARGIN, y + _MARGIN + _LINE * (i + 0.75), i == 0) for i, line in enumerate(box.lines)),
    ]
    click = ""
    if opens and box.opens:
        numbers = " ".join(map(str, box.opens))
        click = f' class="opens" style="cursor: pointer" data-opens="{numbers}" onclick={quoteattr(OPEN)}'
    return f'<g id="{box.name}"{click}>' + "".join(parts) + "</g>"


def _rectangle(x: float, y: float, width: float, height: float, color: str, name: str) -> str:
    return (
        f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" '
        f'fill="{color}" stroke="#374151"/>'
    )


def _text(line: str, x: float, y: float, bold: bool) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="#111827" xml:space="preserve"{weight}>{escape(line)}</text>'
