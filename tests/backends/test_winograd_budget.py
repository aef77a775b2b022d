"""Convolutions by large transformed tiles: values at every edge, errors inside the budget that allows them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.backends.running import ScalarExecutable, call
from tests.backends.test_winograd import EPILOGUE, SIZES, arguments, convolution, kernels_of
from tests.sampling import leave
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.lower.convolution.winograd_transforms import F2, F4, Transforms, applied
from zenith.backends.planner import plan
from zenith.backends.weights import WeightTable
from zenith.compile import link_graph, lower_graph
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.numerics import Numerics
from zenith.passes.pipeline import run

BUDGET = 1e-5
UNIT = 2.0**-24
MOST = 6  # times the error of all results that one of them may have


def within(graph: Graph, backend: str, budget: float = BUDGET) -> Any:
    """The executable of a backend with a budget for errors."""
    if backend == "scalar":
        return ScalarExecutable(plan(run(graph)[0], cpu_target(error_budget=budget)), TILE_FUNCTIONS, graph.weights)
    return link_graph(lower_graph(graph, backend, numerics=Numerics(error_budget=budget)))


def exactly(graph: Graph, name: str, args: list[Any]) -> Any:
    """The result of a graph's counterpart in float64."""
    wide = convolution("f64", *SHAPES[name])
    weights = graph.weights.dense("k", graph.node(1).types[0]).astype(np.float64)
    (result,) = interpret(wide, *(a.astype(np.float64) for a in args), weights=WeightTable({"k": weights}).snapshot())
    return result


SHAPES = {"whole blocks": (4, 64, 16), "many channels": (33, 16, 16), "no block": (2, 44, 44)}


def relative_error(found: Any, exact: Any) -> float:
    return float(np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2)))


@pytest.mark.parametrize("backend", leave(("lanes", "scalar"), ["cpu", "lanes", "scalar"]))
def test_every_edge_with_an_epilogue_and_a_border(backend: str) -> None:
    graph = convolution("f32", 2, 80, 16, EPILOGUE, ", r: f32[n, 1, 5, h - 2, w - 2, 16]")
    assert kernels_of(graph, cpu_target(error_budget=BUDGET)) == ["border", "winograd_large"]
    executable = within(graph, backend)
    for sizes in SIZES if backend == "cpu" else SIZES[:-1]:
        args = arguments(graph, sizes)
        (found,), (exact,) = call(executable, graph, args), interpret(graph, *args, weights=graph.weights.snapshot())
        assert found.shape == exact.shape
        np.testing.assert_allclose(found, exact, atol=MOST * BUDGET)


@pytest.mark.parametrize(
    "name", ["whole blocks", *(pytest.param(n, marks=pytest.mark.thorough) for n in SHAPES if n != "whole blocks")]
)
@pytest.mark.parametrize("kind", ["normal", "rectified", "smooth"])
def test_errors_are_those_that_were_expected(name: str, kind: str) -> None:
    graph = convolution("f32", *SHAPES[name])
    (x,) = arguments(graph, (2, 21, 18))
    x = {"normal": x, "rectified": np.maximum(x, 0), "smooth": x + 3}[kind].astype(np.float32)
    exact = exactly(graph, name, [x])
    channels = 16 * SHAPES[name][0]
    errors = dict[Transforms, float]()
    for transforms, budget in ((F2, 0.0), (F4, BUDGET)):
        (found,) = call(within(graph, "cpu", budget), graph, [x])
        errors[transforms] = relative_error(found, exact)
        assert errors[transforms] <= transforms.error(channels, 512, UNIT)
    assert errors[F2] < errors[F4] < BUDGET


def test_the_budget_decides() -> None:
    """By default, and below the error that is to be expected, there are small tiles."""
    graph = convolution("f32", 4, 64, 16)
    least = F4.error(64, cpu_target().product_tile(graph.inputs[0].dtype, None).block, UNIT)
    for budget, name in ((0.0, "winograd"), (0.99 * least, "winograd"), (least, "winograd_large")):
        assert kernels_of(graph, cpu_target(error_budget=budget)) == [name]
    assert kernels_of(convolution("f64", 4, 64, 16), cpu_target(error_budget=1e-13)) == ["winograd_large"]


def test_few_positions_are_not_worth_more_weights() -> None:
    """Where there are many channels, few positions are to be expected: then small tiles have fewer weights to read."""
    target = cpu_target(error_budget=BUDGET)
    assert kernels_of(convolution("f32", 32, 512, 16), target) == ["winograd"]
    assert kernels_of(convolution("f32", 8, 128, 16), target) == ["winograd_large"]


@pytest.mark.parametrize("transforms", [F2, F4], ids=["F2", "F4"])
def test_matrices_are_a_convolution(transforms: Transforms) -> None:
    """In exact arithmetic, for any numbers; and the numbers of operations are those of the text."""

    def op(text: str, x: Any, y: Any, z: Any = 0) -> Any:
        return eval(text, {"x": Fraction(x), "y": Fraction(y), "z": Fraction(z)})

    rng = np.random.default_rng(2)
    weights, values = ([Fraction(int(n)) for n in rng.integers(-9, 9, k)] for k in (3, transforms.side))
    there = applied(transforms.array, values, op)
    exact = [[sum(c * v for c, v in zip(row, weights, strict=True))] for row in transforms.weights]
    results = applied(transforms.results, [a * g for a, (g,) in zip(there, exact, strict=True)], op)
    assert results == [sum(w * values[p + k] for k, w in enumerate(weights)) for p in range(transforms.step)]
    transformed = applied(transforms.weights, weights, op)  # whose numbers are floats: thirds are rounded
    assert all(abs(a - b) < Fraction(1, 10**12) for a, (b,) in zip(transformed, exact, strict=True))
    assert (F2.input_cost, F2.output_cost) == (64, 48)
