"""Prefixes: with folds and elementwise operations in one kernel, long rows, both directions, equal bits."""

import numpy as np
import pytest

from tests.backends.cuda.grid import GridExecutable
from tests.backends.running import call, check, compiled, plan_of
from tests.passes.compare import program
from zenith.backends.cpu import threads
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lower.reduce.long_row import SPLIT
from zenith.backends.weights import WeightTable

BETWEEN = """
    v1 = exp(x)
    v2 = cumsum(v1, axis={axis}, reverse={reverse})
    v3 = reduce_max(v2, axes=({axis},))
    v4 = broadcast(v3, shape=({shape}), axes=({others}))
    v5 = div(v2, v4)
    v6 = cumprod(v5, axis={axis}, reverse={reverse})
    v7 = sub(v6, x)
    return (v7, v3)
"""
ROWS = ("x: f32[n, m]", BETWEEN.format(axis=1, reverse=False, shape="n, m", others="0,"))
LONG = ("x: f32[n]", BETWEEN.format(axis=0, reverse=True, shape="n,", others=""))
COLUMNS = (
    "x: f64[n, m], y: f64[n, m]",
    """
    v1 = mul(x, y)
    v2 = cumsum(v1, axis=0, reverse=True)
    v3 = recurrence(x, y, axis=0, reverse=True)
    v4 = add(v2, v3)
    return (v4, v3)
    """,
)
CASES = {
    "rows": (ROWS, [(3, 700)]),
    "long row": (LONG, [(3 * SPLIT // 2 + 1,)]),
    "columns": (COLUMNS, [(41, 3), (41, 3)]),
}


def arguments(shapes, dtype):
    """Numbers around zero, of magnitudes below 1."""
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, shape).astype(dtype) for shape in shapes]


RUNS = [(name, backend) for name in CASES for backend in ("cpu", "lanes", "scalar", "cuda on lanes")]
RUNS.remove(("long row", "scalar"))  # plain Python takes seconds for it


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_values(name, backend):
    (signature, body), shapes = CASES[name]
    graph = program(signature, body)
    args = arguments(shapes, graph.inputs[0].dtype.numpy)
    check(call(compiled(graph, backend), graph, args), graph, args)


@pytest.mark.parametrize("team", [32, 64])
@pytest.mark.parametrize("name", CASES)
def test_values_on_a_grid_of_threads(name, team):
    (signature, body), _ = CASES[name]
    graph = program(signature, body)
    shapes = {"rows": [(2, 77)], "long row": [(150,)], "columns": [(41, 3), (41, 3)]}[name]
    args = arguments(shapes, graph.inputs[0].dtype.numpy)
    check(
        call(GridExecutable(plan_of(graph, cuda_target()), WeightTable.of(graph), team=team), graph, args), graph, args
    )


def test_programs_of_one_kernel():
    assert [len(plan_of(program(*CASES[name][0])).steps) for name in ("rows", "columns")] == [1, 1]


@pytest.mark.parametrize(
    ("dtype", "axis", "shape"), [("f32", 0, (100_003,)), ("f64", 1, (37, 501)), ("f32", 0, (501, 37))]
)
def test_the_number_of_threads_changes_no_bit(dtype, axis, shape):
    sizes = ", ".join("nm"[: len(shape)])
    graph = program(f"x: {dtype}[{sizes}]", f"v1 = cumsum(x, axis={axis}, reverse=False)\nreturn (v1,)")
    (x,) = arguments([shape], graph.inputs[0].dtype.numpy)
    executable, results = compiled(graph, "cpu"), []
    try:
        for count in (1, 2, 3):
            threads.set_num_threads(count)
            results.append(call(executable, graph, [x])[0])
    finally:
        threads.set_num_threads(threads.default_num_threads())
    assert all((r == results[0]).all() for r in results)
