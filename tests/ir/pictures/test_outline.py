"""Outlines: every node once, few boxes a level, and what is folded as equal is the same computation."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from tests.programs import STREAMS, random_program
from zenith.errors import SourceLine
from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.ir.pictures.outline import FEW, Item, Part, Repeat, Step, is_data, numbers_of, outline
from zenith.ir.types import ArrayType, float32

F32 = ArrayType(float32, (2, 4))
Layer = Callable[[Builder, int, Value, Value], Value]


def plain(b: Builder, number: int, x: Value, mask: Value) -> Value:
    """A layer with weights of its own, which all layers of a stack read ``mask`` in."""
    w = b.graph.add_weight(f"layer.{number}.w", np.zeros((4, 4), np.float32))
    return b.add(b.tanh(b.mul(b.matmul(x, w), mask)), x)


def another_operation(b: Builder, number: int, x: Value, mask: Value) -> Value:
    w = b.graph.add_weight(f"layer.{number}.w", np.zeros((4, 4), np.float32))
    return b.add(b.exp(b.mul(b.matmul(x, w), mask)), x)


def another_wiring(b: Builder, number: int, x: Value, mask: Value) -> Value:
    w = b.graph.add_weight(f"layer.{number}.w", np.zeros((4, 4), np.float32))
    return b.add(b.tanh(b.mul(b.matmul(x, w), x)), mask)


def another_order(b: Builder, number: int, x: Value, mask: Value) -> Value:
    w = b.graph.add_weight(f"layer.{number}.w", np.zeros((4, 4), np.float32))
    return b.add(x, b.tanh(b.mul(b.matmul(x, w), mask)))


def another_source(b: Builder, number: int, x: Value, mask: Value) -> Value:
    """It reads an input where others read the layer before."""
    return plain(b, number, b.graph.inputs[0], mask)


def with_number(number: float) -> Layer:
    def layer(b: Builder, position: int, x: Value, mask: Value) -> Value:
        w = b.graph.add_weight(f"layer.{position}.w", np.zeros((4, 4), np.float32))
        return b.add(b.tanh(b.mul(b.mul(b.matmul(x, w), number), mask)), x)

    return layer


OTHERS = [another_operation, another_wiring, another_order, another_source, with_number(2.0)]


def stack(layers: Sequence[Layer], names: bool, tapped: Sequence[int] = ()) -> Graph:
    """Layers one after the other, with module paths or none; the results of ``tapped`` ones are returned, too."""
    graph = Graph("stack")
    x, mask = graph.add_input(F32, "x"), graph.add_input(F32, "mask")
    taps = []
    for number, layer in enumerate(layers):
        line = SourceLine("model.py", 7, "forward", f"layer.{number}" if names else "")
        x = layer(Builder(graph, line), number, x, mask)
        taps += [x] if number in tapped else []
    graph.set_outputs([x, *taps])
    return graph


def repeats(items: Sequence[Item]) -> Iterator[Repeat]:
    for item in items:
        if isinstance(item, Repeat):
            yield item
        if not isinstance(item, Step):
            yield from repeats(item.items)


def levels(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    yield items
    for item in items:
        if not isinstance(item, Step):
            yield from levels(item.items)


def closed(graph: Graph, run: Sequence[int]) -> str:
    """A run as a program of its own: what it reads from outside are its inputs, in order of first use."""
    own, values = Graph("run"), dict[Value, Value]()
    args = [arg for n in run for arg in graph.args(n)]
    for arg in args:
        node = graph.node(arg.node)
        if node.primitive.name == "literal" and arg not in values:
            (values[arg],) = own.add_record(node, ())
        elif arg.node not in run and arg not in values:
            values[arg] = own.add_input(arg.type, f"i{len(own.inputs)}")
    for n in run:
        results = own.add_record(graph.node(n), tuple(values[arg] for arg in graph.args(n)))
        values |= dict(zip(graph.results(n), results, strict=True))
    own.set_outputs([values[v] for n in run for v in graph.results(n)])
    return str(own)


PROGRAMS = [(stream, seed, size) for stream in STREAMS for seed, size in ((0, 30), (1, 90))] + [("any", 2, 700)]


@pytest.mark.parametrize(("stream", "seed", "size"), PROGRAMS)
def test_every_operation_stands_once_and_levels_are_small(stream, seed, size):
    graph, _ = random_program(seed, size, stream=stream)
    found = outline(graph)
    numbers = Counter(n for item in found.items for n in numbers_of(item))
    assert numbers == Counter(n for n, node in graph.nodes() if not is_data(node))
    assert list(itertools.chain(*map(numbers_of, found.items))) == sorted(numbers)  # boxes have no cycle
    for level in levels(found.items):
        assert sum(not isinstance(item, Step) or item.number not in found.asides for item in level) <= FEW


@pytest.mark.parametrize(("stream", "seed", "size"), PROGRAMS)
def test_what_is_folded_in_random_programs_is_the_same_program(stream, seed, size):
    graph, _ = random_program(seed, size, stream=stream)
    for repeat in repeats(outline(graph).items):
        assert len({closed(graph, run) for run in repeat.runs}) == 1


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("count", [6, 13])
def test_equal_layers_are_one_box(names, count):
    (item,) = outline(graph := stack([plain] * count, names)).items
    assert isinstance(item, Repeat) and len(item.runs) == count and item.stored == "own weights"
    assert item.title == (f"layer.0 to {count - 1}" if names else "model.py:7")
    assert len({closed(graph, run) for run in item.runs}) == 1


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_layer_that_differs_is_in_no_fold(names, other, place):
    """Neither by an operation, a number, an order, nor by what it reads."""
    layers = [plain] * 8
    layers[place] = other
    graph = stack(layers, names)
    runs = [tuple(run) for repeat in repeats(outline(graph).items) for run in repeat.runs]
    for repeat in repeats(outline(graph).items):
        assert len({closed(graph, run) for run in repeat.runs}) == 1
    if other is not another_source:
        texts = [closed(graph, run) for run in runs]
        assert len(texts) >= 4 and len(set(texts)) <= 2
    else:  # the same computation, of another value: the run before it is not what it reads
        folds = [{(run[0] - 2) // 5 for run in repeat.runs} for repeat in repeats(outline(graph).items)]
        assert folds and (place == 0 or all(not {place - 1, place} <= fold for fold in folds))


def test_layers_of_other_sizes_or_types_are_not_folded():
    def narrow(b: Builder, number: int, x: Value, mask: Value) -> Value:
        w = b.graph.add_weight(f"layer.{number}.w", np.zeros((4, 3), np.float32))
        v = b.graph.add_weight(f"layer.{number}.v", np.zeros((3, 4), np.float32))
        return b.matmul(b.matmul(x, w), v)

    def wide(b: Builder, number: int, x: Value, mask: Value) -> Value:
        w = b.graph.add_weight(f"layer.{number}.w", np.zeros((4, 5), np.float32))
        v = b.graph.add_weight(f"layer.{number}.v", np.zeros((5, 4), np.float32))
        return b.matmul(b.matmul(x, w), v)

    items = outline(stack([narrow, wide] * 7, names=True)).items
    (item,) = items
    assert isinstance(item, Repeat) and len(item.runs) == 7 and len(item.runs[0]) == 4  # pairs of them are equal


def test_a_layer_whose_result_others_read_ends_a_fold():
    folds = [len(r.runs) for r in repeats(outline(stack([plain] * 9, names=True, tapped=[4])).items)]
    assert sorted(folds) == [4, 5]
    (item,) = outline(stack([plain] * 9, names=True, tapped=range(9))).items
    assert isinstance(item, Repeat) and len(item.runs) == 9  # the results of all are read


def test_shared_weights_are_said_to_be_the_same():
    graph = Graph("shared")
    x = graph.add_input(F32, "x")
    w, b = graph.add_weight("w", np.zeros((4, 4), np.float32)), Builder(graph)
    for _ in range(8):
        x = b.add(b.tanh(b.matmul(x, w)), x)
    graph.set_outputs([x])
    (item,) = outline(graph).items
    assert isinstance(item, Repeat) and item.stored == "the same weights" and len(item.runs) == 8


def test_derivatives_of_layers_read_them_from_the_last_to_the_first():
    graph = Graph("gradient")
    x = graph.add_input(F32, "x")
    b, saved = Builder(graph), []
    for number in range(8):
        w = graph.add_weight(f"w{number}", np.zeros((4, 4), np.float32))
        y = b.tanh(b.sin(b.matmul(x, w)))
        saved.append((w, y))
        x = y
    x = b.neg(x)
    for w, y in reversed(saved):
        x = b.matmul(b.mul(x, b.sub(b.exp(y), y)), b.transpose(w, axes=(1, 0)))
    graph.set_outputs([x])
    folds = [item for item in outline(graph).items if isinstance(item, Repeat)]
    assert [len(fold.runs) for fold in folds] == [8, 8]


def test_small_graphs_are_left_as_they_are():
    items = outline(stack([plain] * 4, names=True)).items
    assert all(isinstance(item, Step) for item in items) and len(items) == 16


def test_modules_and_lines_are_parts():
    graph = Graph("model")
    x = graph.add_input(F32, "x")
    for module, count in (("stem", 8), ("", 3), ("block.first", 7), ("block.second", 9)):
        b = Builder(graph, SourceLine("model.py", 3 + count, "forward", module))
        for kind in range(count):
            x = (b.exp, b.tanh, b.sin)[kind % 3](x) if kind % 4 else b.neg(x)
    graph.set_outputs([x])
    items = outline(graph).items
    assert [item.title for item in items if isinstance(item, Part)] == ["stem", "block"]
    assert sum(isinstance(item, Step) for item in items) == 3
