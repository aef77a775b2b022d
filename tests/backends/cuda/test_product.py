"""Products on guarded tiles, planned for a GPU and run on lanes: every remainder, layout, element type and epilogue."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.cpu.test_product import DTYPES, VARIANTS, assert_product, random, seen, stored
from tests.backends.cuda.grid import GridExecutable
from tests.backends.running import call, compiled, plan_of
from zenith.backends.cuda.shared import shared_bytes
from zenith.backends.cuda.target import SHARED, TERMS, choose, cuda_target
from zenith.backends.kernel import LastOf, Loop, walk
from zenith.backends.steps import LaunchStep
from zenith.backends.tiles import SharedProduct
from zenith.backends.weights import WeightTable
from zenith.ir.graph import Graph
from zenith.ir.types import DType, float32

TILE = choose(float32)
SIZES = [
    (m, k, n)
    for m in (0, 1, TILE.rows, 2 * TILE.rows + 3)
    for k in (0, 1, TERMS + 3)
    for n in (0, 1, TILE.panel, 2 * TILE.panel + 5)
]


def run(function: Callable[..., Any], *args: Any, known: bool = False) -> Any:
    """The result of a function that is planned for a GPU, with sizes that are known or not."""
    specs = [zenith.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
    graph = zenith.make_graph(function)(*(specs if known else args))
    (result,) = call(compiled(graph, "cuda on lanes"), graph, args)
    return result


@cache
def symbolic(name: str, dtype: DType) -> tuple[Graph, Any]:
    """A variant without a known size, and its executable."""
    graph = zenith.make_graph(VARIANTS[name])(*stored(name, 5, 7, 11, dtype))
    return graph, compiled(graph, "cuda on lanes")


@pytest.mark.parametrize("name", VARIANTS)
def test_every_remainder_and_layout(name: str) -> None:
    graph, executable = symbolic(name, float32)
    for sizes in SIZES:
        x, y = stored(name, *sizes)
        assert_product(call(executable, graph, [x, y])[0], *seen(name, x, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["plain", "both transposed"])
def test_every_element_type(name: str, dtype: DType) -> None:
    graph, executable = symbolic(name, dtype)
    for sizes in [(1, 3, 5), (3, TERMS + 1, 70), (33, 9, 32), (65, 40, 33)]:
        x, y = stored(name, *sizes, dtype)
        assert_product(call(executable, graph, [x, y])[0], *seen(name, x, y))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 10), (64, 16), (5, 64), (65, 200), (128, 128), (100, 17)])
def test_known_sizes(m: int, n: int) -> None:
    """They give the same bits, for constants, too, which are not packed."""
    x, w = random((m, TERMS + 7)), random((TERMS + 7, n), seed=3)
    result = run(lambda x, w: x @ w, x, w)
    assert_product(result, x, w)
    assert np.array_equal(run(lambda x: x @ w, x), result)
    assert np.array_equal(run(lambda x, w: x @ w, x, w, known=True), result)


def test_batches_and_views_of_them() -> None:
    """Heads of attention: operands are views of [batch, sequence, head, size], read without copies."""

    def scores(q: Any, k: Any) -> Any:
        return np.transpose(q, (0, 2, 1, 3)) @ np.transpose(k, (0, 2, 3, 1))

    for b, s, t, h, d in [(2, 5, 7, 3, 16), (1, 1, 130, 2, 64), (3, 70, 1, 1, 8), (0, 2, 2, 2, 2), (2, 66, 67, 2, 33)]:
        q, k = random((b, s, h, d), seed=5), random((b, t, h, d), seed=6)
        assert_product(run(scores, q, k), q.transpose(0, 2, 1, 3), k.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("m", [0, 1, 7, 133])
@pytest.mark.parametrize("known", [True, False])
def test_epilogues_of_the_product(m: int, known: bool) -> None:
    """Bias, activation, residual and a transpose, at every kind of edge; the residual may be an operand."""
    w, b, x = random((70, 70), seed=9), random((70,), seed=10), random((m, 70), seed=11)

    def layer(x: Any) -> Any:
        return np.transpose(np.tanh(x @ w + b) + x)

    np.testing.assert_allclose(run(layer, x, known=known), layer(x.astype(np.float64)), atol=1e-5)


def test_a_long_sum_is_cut_into_blocks() -> None:
    """One float32 accumulator cannot count beyond 2**24; blocks can."""
    k = 2**24 + 2 * TERMS
    assert run(lambda x, y: x @ y, np.ones((1, k), np.float32), np.ones((k, 1), np.float32)) == k


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 17, 1000])
def test_one_kernel_within_shared_memory_whose_epilogue_is_one_loop(n: int, dtype: DType) -> None:
    x, w = random((3, 99), dtype), random((99, n), dtype)
    graph = zenith.make_graph(lambda x: x @ w + 1)(x)
    (step,) = plan_of(graph, cuda_target()).steps
    assert isinstance(step, LaunchStep) and shared_bytes(step.kernel) <= SHARED
    lanes = [s for s in walk(step.kernel.body) if isinstance(s, Loop) and s.lanes]
    assert len(lanes) == 1 and any(isinstance(s, SharedProduct) for s in walk(step.kernel.body))


@pytest.mark.parametrize(("m", "k", "n", "tiles", "splits"), [
    (64, 768, 768, 12, 6), (640, 768, 768, 120, 2), (2048, 768, 768, 384, 1), (1, 3072, 768, 12, 22),
    (8, 256, 10, 1, 2), (1, 128, 1, 1, 1),
])  # fmt: skip
@pytest.mark.parametrize("known", [True, False])
def test_few_tiles_are_split_along_the_terms(m: int, k: int, n: int, tiles: int, splits: int, known: bool) -> None:
    """By the sizes of the call, known or not; the block that comes last adds up the partial sums."""
    shapes, sizes = (((m, k), (k, n)), {}) if known else ((("m", "k"), ("k", "n")), {"m": m, "k": k, "n": n})
    specs = [zenith.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    plan = plan_of(zenith.make_graph(lambda x, w: np.exp(x @ w))(*specs), cuda_target())
    (multiply,) = (step.kernel for step in plan.steps if isinstance(step, LaunchStep))
    assert multiply.tasks.evaluate(sizes) == tiles * splits
    assert plan.counters.evaluate(sizes) == (tiles if splits > 1 else 0)
    assert plan.arena.evaluate(sizes) >= (m * n * splits * 4 if splits > 1 else 0)
    assert shared_bytes(multiply) <= SHARED


@pytest.mark.thorough
def test_blocks_of_threads_count_each_other() -> None:
    """The printed source, on threads: three partial sums of a tile, which the block that comes last adds up."""
    x, w = random((3, 300), float32, seed=1), random((300, 5), float32, seed=2)
    graph = zenith.make_graph(lambda x, w: np.tanh(x @ w))(x, w)
    grid = GridExecutable(plan_of(graph, cuda_target()), WeightTable.of(graph))
    assert any(isinstance(s, LastOf) for step in grid.plan.steps for s in walk(step.kernel.body))
    for _ in range(2):  # counters are back at zero
        (result,) = call(grid, graph, [x, w])
        np.testing.assert_allclose(result, np.tanh(x.astype(np.float64) @ w), atol=1e-5)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("sizes", [(1, 700, 70), (65, 300, 130), (700, 130, 260), (3, 2000, 1)])
def test_split_terms_in_batches_with_an_epilogue(sizes: tuple[int, int, int], known: bool) -> None:
    m, k, n = sizes
    x, w, b = random((2, m, k), seed=1), random((2, k, n), seed=2), random((m,), seed=3)

    def layer(x: Any, w: Any, b: Any) -> Any:
        return np.transpose(np.tanh(x @ w * 0.02), (0, 2, 1)) + b

    wide = layer(*(a.astype(np.float64) for a in (x, w, b)))
    np.testing.assert_allclose(run(layer, x, w, b, known=known), wide, atol=1e-5)
