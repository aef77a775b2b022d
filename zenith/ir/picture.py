"""Pictures of graphs: Graphviz text, and an SVG drawn here by Sugiyama's layered method, without Graphviz.

Every node is a box with its primitive, parameters and result types; a subgraph is one box with its whole text. A node
is one layer below its lowest argument (longest path), layers are ordered by the mean position of their neighbours in a
few sweeps up and down (the barycenter heuristic), and edges are curves from box to box.

Source of the method: Sugiyama, Tagawa, Toda, *Methods for visual understanding of hierarchical system structures*,
IEEE Transactions on Systems, Man, and Cybernetics 11 (1981).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from zenith.ir import params as params_
from zenith.ir.graph import Graph, Node

_CHARACTER, _LINE, _MARGIN = 6.6, 14.0, 7.0  # pixels: width and height of a letter, space inside a box
_ACROSS, _DOWN = 18.0, 34.0  # pixels: space between boxes of a layer, and between layers
_SWEEPS = 4
_LONGEST = 44  # letters of a parameter text in a box
_COLORS = {"input": "#dbeafe", "output": "#dcfce7", "constant": "#f3f4f6", "literal": "#f3f4f6"}

Edge = tuple[int, int, int, int]  # source, its output, target, its argument


@dataclass(slots=True)
class _Box:
    """A rectangle with lines of text; ``x, y`` is its upper left corner."""

    lines: list[str]
    color: str
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        return max(len(line) for line in self.lines) * _CHARACTER + 2 * _MARGIN

    @property
    def height(self) -> float:
        return len(self.lines) * _LINE + 2 * _MARGIN

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def to_dot(graph: Graph) -> str:
    """The graph in Graphviz's language: ``dot -Tsvg`` draws it.

    >>> from zenith.ir.text import parse
    >>> print(to_dot(parse("def f(x: f32[n]) -> (f32[n]):\\n    v1 = exp(x)\\n    return (v1,)")))
    digraph "f" {
      node [shape=box, style=filled, fontname="monospace", fontsize=10];
      0 [label="x: f32[n]\\l", fillcolor="#dbeafe"];
      1 [label="exp\\lf32[n]\\l", fillcolor="#ffffff"];
      2 [label="output\\l", fillcolor="#dcfce7"];
      0 -> 1;
      1 -> 2;
    }
    """
    boxes, edges = _boxes(graph), _edges(graph)
    several = {(s, o) for s, o, _, _ in edges if o > 0}
    lines = [f"digraph {_quoted(graph.name)} {{"]
    lines.append('  node [shape=box, style=filled, fontname="monospace", fontsize=10];')
    for number, box in boxes.items():
        label = "".join(_quoted(line)[1:-1] + r"\l" for line in box.lines)
        lines.append(f'  {number} [label="{label}", fillcolor="{box.color}"];')
    for source, output, target, _ in edges:
        tail = f' [taillabel="{output}"]' if (source, output) in several else ""
        lines.append(f"  {source} -> {target}{tail};")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_svg(graph: Graph) -> str:
    """The graph as an SVG picture; a notebook shows it when a cell ends with the graph."""
    boxes, edges = _boxes(graph), _edges(graph)
    layers = _ordered(_layers(graph), edges)
    arity = Counter(target for _, _, target, _ in edges)
    width, height = _assign_coordinates(layers, boxes)
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">',
        f"<title>{escape(graph.name)}</title>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#6b7280"/></marker></defs>',
        *(_curve(boxes, edge, arity[edge[2]]) for edge in edges),
        *(_rectangle(number, box) for number, box in boxes.items()),
        "</svg>",
    ]
    return "\n".join(elements)


def _boxes(graph: Graph) -> dict[int, _Box]:
    """A box for every node, and one for the outputs with the next free number."""
    boxes = {n: _Box(_label(node), _COLORS.get(node.primitive.name, "#ffffff")) for n, node in graph.nodes()}
    boxes[max(boxes, default=-1) + 1] = _Box(["output"], _COLORS["output"])
    return boxes


def _label(node: Node) -> list[str]:
    types = ", ".join(map(str, node.types))
    if node.primitive.name == "input":
        return [f"{node.params['name']}: {types}"]
    lines = [node.primitive.name]
    lines += [line.expandtabs() for body in node.bodies for line in str(body).splitlines()]
    for name, value in node.params.items():
        if name not in node.primitive.subgraphs:
            text = f"{name}={params_.KINDS[node.primitive.params[name]].text(value)}"
            lines.append(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...")
    return [*lines, types] if types else lines


def _edges(graph: Graph) -> list[Edge]:
    edges = [(a.node, a.output, n, i) for n, _ in graph.nodes() for i, a in enumerate(graph.args(n))]
    end = max((n for n, _ in graph.nodes()), default=-1) + 1
    return edges + [(v.node, v.output, end, i) for i, v in enumerate(graph.outputs)]


def _layers(graph: Graph) -> list[list[int]]:
    """Nodes by the length of the longest path that leads to them, and a last layer for the outputs."""
    import networkx as nx  # a third of a second, for those who draw alone

    return [*map(list, nx.topological_generations(graph.networkx)), [len(graph)]]


def _ordered(layers: list[list[int]], edges: list[Edge]) -> list[list[int]]:
    """Each layer sorted by the mean relative position of its neighbours above, then below, a few times."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for source, _, target, _ in edges:
        above.setdefault(target, []).append(source)
        below.setdefault(source, []).append(target)
    rank = {n: (i + 0.5) / len(layer) for layer in layers for i, n in enumerate(layer)}
    for sweep in range(_SWEEPS):
        near = above if sweep % 2 == 0 else below
        for i in range(len(layers)) if sweep % 2 == 0 else reversed(range(len(layers))):
            means = {n: sum(rank[m] for m in near[n]) / len(near[n]) if n in near else rank[n] for n in layers[i]}
            layers[i] = sorted(layers[i], key=lambda n: (means[n], n))
            rank.update({n: (k + 0.5) / len(layers[i]) for k, n in enumerate(layers[i])})
    return layers


def _assign_coordinates(layers: list[list[int]], boxes: dict[int, _Box]) -> tuple[float, float]:
    """Give every box its corner, layers centred; returns the size of the picture."""
    widths = [sum(boxes[n].width for n in layer) + _ACROSS * (len(layer) - 1) for layer in layers]
    total, y = max(widths) + 2 * _ACROSS, _ACROSS
    for layer, width in zip(layers, widths, strict=True):
        x = (total - width) / 2
        for n in layer:
            boxes[n].x, boxes[n].y = x, y
            x += boxes[n].width + _ACROSS
        y += max(boxes[n].height for n in layer) + _DOWN
    return total, y - _DOWN + _ACROSS


def _curve(boxes: dict[int, _Box], edge: Edge, arity: int) -> str:
    """A cubic curve from the source's lower side to the argument's point on the target's upper side."""
    source, _, target, argument = edge
    a, b = boxes[source], boxes[target]
    x2 = b.x + b.width * (argument + 1) / (arity + 1)
    y1, y2 = a.y + a.height, b.y
    bend = max((y2 - y1) / 2, _DOWN / 2)
    path = f"M{a.middle:.1f},{y1:.1f} C{a.middle:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2:.1f}"
    return f'<path d="{path}" fill="none" stroke="#6b7280" marker-end="url(#arrow)"/>'


def _rectangle(number: int, box: _Box) -> str:
    lines = [
        f'<text x="{box.x + _MARGIN:.1f}" y="{box.y + _MARGIN + _LINE * (i + 0.75):.1f}" xml:space="preserve">'
        f"{escape(line)}</text>"
        for i, line in enumerate(box.lines)
    ]
    shape = (
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="3" '
        f'fill={quoteattr(box.color)} stroke="#374151"/>'
    )
    return f'<g id="node{number}">' + shape + "".join(lines) + "</g>"
