"""Pictures: sound XML, every node and edge drawn, no boxes on top of each other."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree

import pytest

from tests.programs import random_program
from zenith.ir.graph import Graph
from zenith.ir.text import parse

SVG = "{http://www.w3.org/2000/svg}"
FUSED = parse(
    "def f(x: f32[n], y: f32[n]) -> (f32[n], bool[n]):\n"
    "    def body0(a: f32[n], b: f32[n]) -> (f32[n], bool[n]):\n"
    "        v2 = add(a, b)\n        v3 = lt(v2, b)\n        return (v2, v3)\n"
    "    v2_0, v2_1 = fused(x, y, body=body0, anchor='it said \"<&>\"')\n"
    "    return (v2_0, v2_1)"
)
GRAPHS = [FUSED, parse("def f() -> ():\n    return ()"), *(random_program(seed)[0] for seed in range(5))]


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_node_and_edge_is_drawn(graph: Graph) -> None:
    root = ElementTree.fromstring(graph.to_svg())
    groups = {g.get("id"): g for g in root.iter(SVG + "g")}
    assert len(groups) == len(graph) + 1  # and the outputs
    for number, node in graph.nodes():
        text = [t.text for t in groups[f"node{number}"].iter(SVG + "text")]
        name = node.primitive.name
        assert text[0] == (f"{node.params['name']}: {node.types[0]}" if name == "input" else name)
        assert name == "input" or text[-1] == ", ".join(map(str, node.types))
    curves = [p for p in root.iter(SVG + "path") if p.get("marker-end")]
    assert len(curves) == graph.networkx.number_of_edges() + len(graph.outputs)


@pytest.mark.parametrize("graph", GRAPHS)
def test_boxes_do_not_overlap_and_edges_go_down(graph: Graph) -> None:
    root = ElementTree.fromstring(graph.to_svg())
    boxes = [tuple(float(r.get(k, "")) for k in ("x", "y", "width", "height")) for r in root.iter(SVG + "rect")]
    for (x, y, w, h), (a, b, c, d) in itertools.combinations(boxes, 2):
        assert x + w <= a or a + c <= x or y + h <= b or b + d <= y
    for x, y, w, h in boxes:
        assert x >= 0 and y >= 0
        assert x + w <= float(root.get("width", "")) and y + h <= float(root.get("height", ""))
    for curve in root.iter(SVG + "path"):
        if curve.get("marker-end"):
            points = [tuple(map(float, p.strip("MC").split(","))) for p in curve.get("d", "").split()]
            assert points[0][1] < points[-1][1]


def test_a_subgraph_is_one_box_with_its_text() -> None:
    assert "v2 = add(a, b)" in FUSED.to_svg() and "v3 = lt(v2, b)" in FUSED.to_svg()
    assert FUSED._repr_svg_() == FUSED.to_svg()


def test_graphviz_text() -> None:
    dot = FUSED.to_dot()
    assert dot.startswith('digraph "f" {\n') and dot.endswith("\n}")
    assert '  2 [label="fused\\ldef body0(a: f32[n], b: f32[n]) -> (f32[n], bool[n]):\\l' in dot
    assert "anchor='it said \\\"<&>\\\"'" in dot
    assert dot.count(" -> 2;") == 2 and '  2 -> 3 [taillabel="1"];' in dot
