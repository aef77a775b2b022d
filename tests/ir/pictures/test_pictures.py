"""Pictures: sound XML, all that a level has is drawn, nothing on top of each other, and no edge behind a box."""

from __future__ import annotations

import itertools
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

import numpy as np
import pytest

from tests.ir.pictures.test_outline import F32, plain, stack
from tests.programs import random_program
from zenith.errors import ZenithError
from zenith.ir.builder import Builder
from zenith.ir.graph import Graph
from zenith.ir.pictures import graphviz, layout
from zenith.ir.pictures.drawing import Panel, panel_of
from zenith.ir.pictures.page import to_page
from zenith.ir.pictures.svg import WIDEST, svg
from zenith.ir.text import parse

SVG = "{http://www.w3.org/2000/svg}"
FUSED = parse(
    "def f(x: f32[n], y: f32[n]) -> (f32[n], bool[n]):\n"
    "    def body0(a: f32[n], b: f32[n]) -> (f32[n], bool[n]):\n"
    "        v2 = add(a, b)\n        v3 = lt(v2, b)\n        return (v2, v3)\n"
    "    v2_0, v2_1 = fused(x, y, body=body0, anchor='it said \"<&>\"')\n"
    "    return (v2_0, v2_1)"
)
MODEL = stack([plain] * 40, names=False)
PARALLEL = parse(
    "def f(x: f32[n, 64]) -> (f32[64]):\n"
    + "".join(f"    a{i} = reduce_sum(x, axes=(0,))\n" for i in range(16))
    + "    b0 = add(a0, a1)\n    b1 = add(b0, a15)\n    return (b1,)"
)
GRAPHS = [
    FUSED, MODEL, PARALLEL, parse("def f() -> ():\n    return ()"), *(random_program(s)[0] for s in range(5)),
    *(random_program(s, 90, stream=stream)[0] for s, stream in enumerate(("any", "attention", "storage"))),
]  # fmt: skip
LAYOUTS = ["own", pytest.param("dot", marks=pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is absent"))]


@pytest.fixture(autouse=True)
def arranged(request, monkeypatch):
    """The layout that a test names, our own where it names none."""
    monkeypatch.setattr(graphviz, "is_installed", lambda: getattr(request, "param", "own") == "dot")


def panels(panel: Panel) -> Iterator[Panel]:
    yield panel
    for inner in panel.panels:
        yield from panels(inner)


def boxes_of(root: ElementTree.Element) -> list[tuple[float, ...]]:
    found = [r for r in root.iter(SVG + "rect") if r.get("class") == "box"]
    return [tuple(float(r.get(k, "")) for k in ("x", "y", "width", "height")) for r in found]


def curves_of(root: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """Each edge as points on its way."""
    return [list(_points(path.get("d", ""))) for path in root.iter(SVG + "path") if path.get("class") == "edge"]


def _points(text: str) -> Iterator[tuple[float, float]]:
    corners = [tuple(map(float, word.strip("MC").split(","))) for word in text.split()]
    for i in range(0, len(corners) - 1, 3):
        for t in np.linspace(0, 1, 17):
            weights = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            yield tuple(sum(w * p[axis] for w, p in zip(weights, corners[i : i + 4], strict=True)) for axis in (0, 1))


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("arranged", LAYOUTS, indirect=True)
def test_boxes_do_not_overlap_and_no_edge_runs_behind_one(graph: Graph, arranged: None) -> None:
    for panel in panels(panel_of(graph)):
        root = ElementTree.fromstring(svg(panel))
        boxes, curves = boxes_of(root), curves_of(root)
        assert len(boxes) == len(panel.boxes) and len(curves) == len(panel.edges)
        for (x, y, w, h), (a, b, c, d) in itertools.combinations(boxes, 2):
            assert x + w <= a or a + c <= x or y + h <= b or b + d <= y
        right, bottom = map(float, root.get("viewBox", "").split()[2:])
        for x, y, w, h in boxes:
            assert x >= 0 and y >= 0
            assert x + w <= right and y + h <= bottom
        for curve in curves:
            assert curve[0][1] < curve[-1][1]
            for px, py in curve:
                assert not any(x + 1 < px < x + w - 1 and y + 1 < py < y + h - 1 for x, y, w, h in boxes)


@pytest.mark.parametrize("graph", GRAPHS)
def test_pictures_are_as_wide_as_a_page(graph: Graph) -> None:
    for panel in panels(panel_of(graph)):
        root = ElementTree.fromstring(svg(panel))
        passing = 18 * 2 * 21  # edges that pass a layer, at most
        assert float(root.get("viewBox", "").split()[2]) <= layout.PAGE + passing
        assert float(root.get("width", "")) <= WIDEST


@pytest.mark.parametrize("graph", GRAPHS)
def test_each_drawn_argument_is_an_edge_and_each_other_one_is_text(graph: Graph) -> None:
    """In a graph that is not folded; those that are have one edge from box to box."""
    panel = panel_of(graph)
    if any(box.name in ("part", "repeat", "inputs") for box in panel.boxes):
        assert len(panel.edges) == len(set(panel.edges)) or any(box.single for box in panel.boxes)
        return
    drawn = {box.name: box for box in panel.boxes}
    names = [box.name for box in panel.boxes]
    edges = [(names[a], names[b]) for a, b in panel.edges]
    expected = []
    for number, node in graph.nodes():
        if f"node{number}" in drawn:
            sources = [a.node for a in graph.args(number)]
            expected += [(f"node{s}", f"node{number}") for s in sources if f"node{s}" in drawn]
            text = " ".join(drawn[f"node{number}"].lines)
            for source in sources:
                value = graph.node(source)
                if value.primitive.name == "literal":
                    shown = str(value.params["dtype"].numpy.type(value.params["value"]))
                    assert shown in text or len(shown) > 12
                assert f"node{source}" in drawn or text.split("(")[0] == node.primitive.name
    expected += [(f"node{v.node}", "output") for v in graph.outputs if f"node{v.node}" in drawn]
    assert sorted(edges) == sorted(expected)


def test_weights_constants_and_numbers_stand_in_the_box_of_their_reader() -> None:
    graph = Graph("f")
    x, w = graph.add_input(F32, "x"), graph.add_weight("encoder.dense.weight", np.zeros((4, 4), np.float32))
    b = Builder(graph)
    bias = b.broadcast(graph.add_constant(np.arange(4, dtype=np.float32)), shape=(2, 4), axes=(1,))
    graph.set_outputs([b.mul(b.add(b.matmul(x, b.transpose(w, axes=(1, 0))), bias), 0.1)])
    x_box, matmul, add, mul, output = panel_of(graph).boxes
    assert x_box.lines == ["x: f32[2, 4]"] and output.lines == ["output"]
    assert matmul.lines == ["matmul(\N{MIDDLE DOT}, b)", "b = transpose of ....dense.weight: f32[4, 4]", "f32[2, 4]"]
    assert add.lines == ["add(\N{MIDDLE DOT}, constant)", "f32[2, 4]"]
    assert mul.lines == ["mul(\N{MIDDLE DOT}, 0.1)", "f32[2, 4]"]


def test_a_subgraph_is_text_in_its_box_and_opens_as_a_picture() -> None:
    assert "v2 = add(a, b)" in FUSED.to_svg() and "v3 = lt(v2, b)" in FUSED.to_svg()
    (body,) = panel_of(FUSED).panels
    assert body.title == "fused: body0" and [box.lines[0] for box in body.boxes[2:]] == ["add", "lt", "output"]
    assert FUSED._repr_svg_() == FUSED.to_svg() and FUSED._repr_html_() == FUSED.to_html()


def test_many_inputs_are_one_box_and_stand_where_they_are_read() -> None:
    graph = Graph("sum")
    inputs = [graph.add_input(F32, f"p{i}") for i in range(12)]
    b, total = Builder(graph), inputs[0]
    for value in inputs[1:]:
        total = b.add(total, value)
    graph.set_outputs([total])
    boxes = panel_of(graph).boxes
    assert boxes[0].lines[0] == "12 inputs" and boxes[1].lines[0] == "add(p0, p1)" and len(boxes) == 1 + 11 + 1


def test_a_page_loads_nothing_and_each_fold_has_what_it_opens() -> None:
    page = to_page(MODEL, "a <model>")
    assert page.startswith("<!DOCTYPE html>") and "a &lt;model&gt;" in page
    rest = page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not any(word in rest for word in ("http:", "https:", "src=", "<script", "<link", "url(", "@import"))
    root = ElementTree.fromstring(page.split("\n", 1)[1].replace('<meta charset="utf-8">', ""))
    folds = 0
    for picture in (div for div in root.iter("div") if div.get("class") == "zenith-picture"):
        below = {d.get("data-panel") for d in picture.findall("details")}
        opens = [g.get("data-opens", "").split() for g in picture[0].iter(SVG + "g") if g.get("data-opens")]
        assert below == set(itertools.chain(*opens))
        folds += len(opens)
    assert folds == 1 and "x 40" in page
    assert all("onclick" not in line for line in MODEL.to_svg().splitlines())


@pytest.mark.parametrize("fault", ["exit 3", "echo broken >&2; exit 1"])
@pytest.mark.parametrize("arranged", ["dot"], indirect=True)
def test_a_dot_that_fails_is_told(fault: str, arranged: None, tmp_path, monkeypatch) -> None:
    (tmp_path / "dot").write_text(f"#!/bin/sh\n{fault}\n")
    (tmp_path / "dot").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ZenithError, match=r"dot failed: (broken|.*status 3)(.|\n)*PATH"):
        FUSED.to_svg()


def test_graphviz_text() -> None:
    dot = FUSED.to_dot()
    assert dot.startswith('digraph "f" {\n') and dot.endswith("\n}")
    assert '  2 [label="fused\\ldef body0(a: f32[n], b: f32[n]) -> (f32[n], bool[n]):\\l' in dot
    assert "anchor='it said \\\"<&>\\\"'" in dot
    assert dot.count(" -> 2;") == 2 and '  2 -> 3 [taillabel="1"];' in dot
