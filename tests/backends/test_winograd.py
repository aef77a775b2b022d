"""Convolutions by transforms of tiles: values at every edge, errors, threads, and the choice of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backends.running import ScalarExecutable, call, check, compiled, plan_of
from tests.passes.compare import program
from zenith.backends.cpu import threads
from zenith.backends.cpu.target import cpu_target
from zenith.backends.engines import Refusal
from zenith.backends.kernel import walk as statements
from zenith.backends.lower.convolution.winograd_cost import winograd_cost
from zenith.backends.steps import LaunchStep, walk
from zenith.backends.target import Target
from zenith.backends.tiles import ProductTile
from zenith.backends.weights import WeightTable
from zenith.config import config
from zenith.ir.graph import Graph

WINDOWS = "window=(3, 3), strides=(1, 1), dilation=(1, 1)"
BACKENDS = ("cpu", "lanes", "scalar")
SIZES = ((1, 9, 7), (2, 4, 5), (3, 3, 3), (0, 4, 4), (2, 2, 6), (1, 20, 30))  # of arrays: examples, height, width


def convolution(
    dtype: str, blocks: int, outputs: int, block: int, epilogue: str = "return (v,)", more: str = ""
) -> Graph:
    """A convolution of blocks of 16 channels by a weight, of an array of any size."""
    terms = 9 * 16 * blocks
    body = f"""k = weight(name='k', dtype={dtype}, shape=(1, {terms}, {outputs}))
        v = conv_blocks(x, k, {WINDOWS}, block={block})
        {epilogue}"""
    graph = program(f"x: {dtype}[n, 1, {blocks}, h, w, 16]{more}", body)
    weights = np.random.default_rng(9).standard_normal((1, terms, outputs)) / terms**0.5
    graph.weights = WeightTable({"k": weights.astype({"f32": np.float32, "f64": np.float64}[dtype])})
    return graph


def kernels_of(graph: Graph, target: Target | None = None) -> list[str]:
    """The first operation of each kernel of a call."""
    return [s.kernel.doc.split(";")[0] for s in walk(plan_of(graph, target).steps) if isinstance(s, LaunchStep)]


def arguments(graph: Graph, sizes: tuple[int, int, int], seed: int = 0) -> list[Any]:
    rng, named = np.random.default_rng(seed), dict(zip("nhw", sizes, strict=True))
    shapes = [[max(0, n.evaluate(named)) for n in v.shape] for v in graph.inputs]
    return [rng.standard_normal(shape).astype(v.dtype.numpy) for v, shape in zip(graph.inputs, shapes, strict=True)]


EPILOGUE = """z = add(v, r)
        c = literal(value=0.5, dtype=f32)
        p = pad(z, c, low=(0, 0, 0, 1, 2, 0), high=(0, 0, 0, 1, 0, 0), interior=(0, 0, 0, 0, 0, 0))
        return (p,)"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_edge_with_an_epilogue_and_a_border(backend: str) -> None:
    """Panels are full and not full; tiles cross examples and ends of lines; results may be none."""
    graph = convolution("f32", 2, 80, 16, EPILOGUE, ", r: f32[n, 1, 5, h - 2, w - 2, 16]")
    assert kernels_of(graph) == ["border", "winograd"]
    executable = compiled(graph, backend)
    for sizes in SIZES if backend == "cpu" else SIZES[:-1]:
        args = arguments(graph, sizes)
        check(call(executable, graph, args), graph, args)


@pytest.mark.parametrize(("backend", "blocks", "outputs", "block"), [
    ("cpu", 1, 22, 11), ("lanes", 1, 22, 11), ("scalar", 2, 48, 48), ("lanes", 2, 48, 48),
])  # fmt: skip
def test_blocks_that_fill_no_panel(backend: str, blocks: int, outputs: int, block: int) -> None:
    graph = convolution("f64", blocks, outputs, block)
    assert kernels_of(graph) == ["winograd"]
    executable = compiled(graph, backend)
    for sizes in SIZES[:3]:
        args = arguments(graph, sizes)
        check(call(executable, graph, args), graph, args)


def test_sums_of_many_channels_are_cut() -> None:
    graph = convolution("f32", 33, 16, 16)
    args = arguments(graph, (1, 4, 5))
    (found,) = call(compiled(graph, "lanes"), graph, args)
    check([found], graph, args)
    assert "term_block" in ScalarExecutable(plan_of(graph), {}, graph.weights).sources.popitem()[1]


def test_as_exact_as_the_direct_one_and_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = convolution("f32", 4, 64, 16)
    args = arguments(graph, (2, 21, 19))
    executable, found = compiled(graph, "cpu"), []
    try:
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            found.append(call(executable, graph, args)[0])
    finally:
        threads.set_num_threads(threads.default_num_threads())
    assert all(np.array_equal(found[0], other) for other in found[1:])
    monkeypatch.setattr(config, "engines", ("-winograd",))
    assert kernels_of(graph) == ["offsets", "conv_blocks"]
    (direct,) = call(compiled(graph, "cpu"), graph, args)
    wide = convolution("f64", 4, 64, 16)
    wide.weights = WeightTable({"k": graph.weights.dense("k", graph.node(1).types[0]).astype(np.float64)})
    (exact,) = call(compiled(wide, "reference"), wide, [a.astype(np.float64) for a in args])
    errors = [float(np.sqrt(np.mean((result - exact) ** 2))) for result in (found[0], direct)]
    assert errors[0] <= 1.5 * errors[1]


REFUSED = {
    "strides": ("x: f32[n, 1, 2, h, w, 16]", "window=(3, 3), strides=(2, 1), dilation=(1, 1), block=16", "3x3"),
    "holes": ("x: f32[n, 1, 2, h, w, 16]", "window=(3, 3), strides=(1, 1), dilation=(1, 2), block=16", "3x3"),
    "other windows": ("x: f32[n, 1, 6, h, w, 16]", "window=(3, 1), strides=(1, 1), dilation=(1, 1), block=16", "3x3"),
    "few channels": ("x: f32[n, 1, 2, h, w, 1]", f"{WINDOWS}, block=16", "operations"),
    "few positions": ("x: f32[1, 1, 2, 4, 4, 16]", f"{WINDOWS}, block=16", "operations"),
    "whole numbers": ("x: i32[n, 1, 2, h, w, 16]", f"{WINDOWS}, block=16", "halves"),
    "channels of any number": ("x: f32[n, 1, c, h, w, 16]", f"{WINDOWS}, block=16", "not known"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    argument, options, words = REFUSED[name]
    dtype, terms = argument[3:6], {"few channels": 18, "channels of any number": "144*c"}.get(name, 288)
    graph = program(f"{argument}, k: {dtype}[1, {terms}, 32]", f"v = conv_blocks(x, k, {options})\nreturn (v,)")
    answer = winograd_cost(graph, cpu_target())
    assert isinstance(answer, Refusal) and words in answer.why


def test_the_more_positions_and_channels_the_better() -> None:
    def cost(size: int, blocks: int) -> float:
        text = f"v = conv_blocks(x, k, {WINDOWS}, block=16)\nreturn (v,)"
        argument = f"x: f32[1, 1, {blocks}, {size}, {size}, 16], k: f32[1, {144 * blocks}, {16 * blocks}]"
        answer = winograd_cost(program(argument, text), cpu_target())
        assert isinstance(answer, float)
        return answer

    assert cost(7, 4) > cost(9, 4) > cost(16, 4)
    assert cost(58, 1) > cost(58, 2) > cost(58, 8)


def test_tiles_of_known_sizes_have_the_heights_that_occur() -> None:
    text = "v = conv_blocks(x, k, window=(3, 3), strides=(2, 2), dilation=(1, 1), block=16)\nreturn (v,)"
    graph = program("x: f32[1, 1, 2, 15, 15, 16], k: f32[1, 288, 32]", text)
    (found,) = [s.kernel for s in walk(plan_of(graph, cpu_target("portable")).steps)
                if isinstance(s, LaunchStep) and "conv_blocks" in s.kernel.doc]  # fmt: skip
    heights = {s.rows for s in statements(found.body) if isinstance(s, ProductTile)}
    assert heights == {3, 4}  # 49 positions are split into chunks of 3 and 4


def test_weights_that_change_are_transformed_in_every_call() -> None:
    """Where there are tiles enough for it."""
    text = f"v = conv_blocks(x, k, {WINDOWS}, block=16)\nreturn (v,)"
    graph = program("x: f32[n, 1, 2, h, w, 16], k: f32[1, 288, 32]", text)
    assert kernels_of(graph) == ["pack", "winograd"]
    executable = compiled(graph, "cpu")
    for seed in range(2):
        args = arguments(graph, (2, 9, 7), seed)
        check(call(executable, graph, args), graph, args)
    few = program("x: f32[1, 1, 2, 8, 8, 16], k: f32[1, 288, 32]", text)
    assert kernels_of(few) == ["conv_blocks"]
