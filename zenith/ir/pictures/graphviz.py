"""Graphviz: a graph as text in its language, and the places that its ``dot`` gives a drawing where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from zenith.errors import ZenithError
from zenith.ir.graph import Graph
from zenith.ir.pictures.layout import ACROSS, DOWN, Edge, Placement, Point
from zenith.ir.pictures.words import COLORS, whole

_INCH = 72.0  # pixels
_SECONDS = 60


def to_dot(graph: Graph) -> str:
    """The whole graph in Graphviz's language: ``dot -Tsvg`` draws it.

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
    edges = [(a.node, a.output, n) for n, _ in graph.nodes() for a in graph.args(n)]
    edges += [(v.node, v.output, len(graph)) for v in graph.outputs]
    several = {(source, output) for source, output, _ in edges if output > 0}
    lines = [f"digraph {_quoted(graph.name)} {{"]
    lines.append('  node [shape=box, style=filled, fontname="monospace", fontsize=10];')
    for number, node in graph.nodes():
        label = "".join(_quoted(line)[1:-1] + r"\l" for line in whole(node))
        lines.append(f'  {number} [label="{label}", fillcolor="{COLORS.get(node.primitive.name, "#ffffff")}"];')
    lines.append(f'  {len(graph)} [label="output\\l", fillcolor="{COLORS["output"]}"];')
    for source, output, target in edges:
        tail = f' [taillabel="{output}"]' if (source, output) in several else ""
        lines.append(f"  {source} -> {target}{tail};")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def is_installed() -> bool:
    """Whether ``dot`` is on the path."""
    return shutil.which("dot") is not None


def arrange(sizes: Sequence[Point], edges: Sequence[Edge], ordered: Sequence[bool]) -> Placement:
    """The places that ``dot`` gives boxes of these widths and heights; ZenithError with its words when it fails.

    Edges enter ``ordered`` boxes in order: these are records, with a field for each.
    """
    entering: dict[int, int] = {}
    lines = [f"digraph {{ ranksep={DOWN / _INCH}; nodesep={ACROSS / _INCH};"]
    lines.append("node [shape=record, fixedsize=true]; edge [arrowhead=none];")
    for source, target in edges:
        position = entering[target] = entering.get(target, -1) + 1
        lines.append(f"{source} -> {target}" + (f":p{position}:n;" if ordered[target] else ";"))
    for box, (width, height) in enumerate(sizes):
        fields = "|".join(f"<p{n}>" for n in range(entering.get(box, 0) + 1)) if ordered[box] else ""
        lines.append(f'{box} [width={width / _INCH}, height={height / _INCH}, label="{fields}"];')
    try:
        done = subprocess.run(
            ["dot", "-Tplain"],
            input="\n".join([*lines, "}"]),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        raise ZenithError(f"Graphviz's dot failed: {said}", fix="repair it, or take it off the PATH") from error
    return _read(done.stdout, sizes, edges)


def _read(text: str, sizes: Sequence[Point], edges: Sequence[Edge]) -> Placement:
    """What ``dot -Tplain`` says: lengths in inches, from the lower left corner."""
    corners: dict[int, Point] = {}
    curves: dict[Edge, list[list[Point]]] = {}
    width = height = 0.0
    for line in text.splitlines():
        kind, *words = line.split()
        if kind == "graph":
            width, height = (_INCH * float(word) for word in words[1:3])
        elif kind == "node":
            number, x, y = int(words[0]), _INCH * float(words[1]), height - _INCH * float(words[2])
            corners[number] = (x - sizes[number][0] / 2 + ACROSS, y - sizes[number][1] / 2 + ACROSS)
        elif kind == "edge":
            count = int(words[2])
            numbers = [_INCH * float(word) for word in words[3 : 3 + 2 * count]]
            points = [(x + ACROSS, height - y + ACROSS) for x, y in zip(numbers[::2], numbers[1::2], strict=True)]
            curves.setdefault((int(words[0]), int(words[1])), []).append(points)
    for found in curves.values():  # of one box from the same other one: in the order of its fields
        found.sort(key=lambda points: -points[-1][0])
    placed = [corners[n] for n in range(len(sizes))], [curves[edge].pop() for edge in edges]
    return Placement(*placed, width + 2 * ACROSS, height + 2 * ACROSS)
