"""Products with vectors as reductions: the values of the product, in order of memory, and which products stay."""

import numpy as np
import pytest

import zenith
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lower.reduce.long_row import SPLIT
from zenith.passes.matrix_vector_products import matrix_vector_products
from zenith.passes.pipeline import passes_for

RNG = np.random.default_rng(0)
PRODUCTS = {
    "a column": lambda a, x: a @ x,
    "a row": lambda a, x: x[: a.shape[0]] @ a,
    "a column and a transpose": lambda a, x: a.T @ x[: a.shape[0]],
    "a row and a transpose": lambda a, x: x @ a.T,
    "matrices": lambda a, x: a @ x[:, None] + 1,
    "with an epilogue": lambda a, x: np.tanh(a @ x + 0.5) * 2,
    "with a producer": lambda a, x: np.exp(a) @ np.sin(x),
    "a dot product": lambda a, x: x @ x,
}


def shape_for(name):
    """The shape of a matrix that fits a vector of as many elements as it has columns; more where rows are as long."""
    return (7, 12) if ("row" in name and "transpose" not in name) or name == "a column and a transpose" else (12, 7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PRODUCTS)
def test_values_are_those_of_numpy(name, dtype):
    function = zenith.jit(PRODUCTS[name])
    for rows, columns in (shape_for(name), (300, 300), (1, 1)):
        a, x = RNG.standard_normal((rows, columns)).astype(dtype), RNG.standard_normal(columns).astype(dtype)
        expected = PRODUCTS[name](a.astype(np.float64), x.astype(np.float64))
        np.testing.assert_allclose(function(a, x), expected, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-5)
    assert "matmul" not in function.show("optimized")


@pytest.mark.parametrize("k", [0, 1, 5])
def test_batches_and_empty_sums(k):
    a, x = RNG.standard_normal((3, 4, k)), RNG.standard_normal((3, k, 1))
    function = zenith.jit(lambda a, x: a @ x)
    np.testing.assert_allclose(function(a, x), a @ x, rtol=1e-12)
    function = zenith.jit(lambda a, x: np.swapaxes(x, 1, 2) @ np.swapaxes(a, 1, 2))
    np.testing.assert_allclose(function(a, x), np.swapaxes(a @ x, 1, 2), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_a_dot_product_is_shared_by_threads(dtype):
    """It is one sum of a row, which is split; the row of a matrix with one row would be a thread's."""
    x, y = (RNG.standard_normal(40_000).astype(dtype) * (1 if dtype is np.float64 else 1j) for _ in range(2))
    for product in (np.dot, np.vdot, lambda x, y: x[None] @ y):
        function = zenith.jit(product)
        np.testing.assert_allclose(function(x, y), product(x, y), rtol=1e-10)
        assert f"//{SPLIT})" in function.show("plan")


def test_a_row_times_a_packed_matrix_stays_a_product():
    w = RNG.standard_normal((20, 30))
    function = zenith.jit(lambda x: x @ w)
    x = RNG.standard_normal(20)
    np.testing.assert_allclose(function(x), x @ w, rtol=1e-12)
    assert "matmul" in function.show("optimized")


def test_a_row_in_a_loop_stays_a_product_and_a_column_does_not():
    def steps(x, w, rows):
        return zenith.fori_loop(0, 4, lambda i, v: np.tanh(v @ w if rows else w @ v), x)

    x, w = RNG.standard_normal(40), RNG.standard_normal((40, 40))
    for rows in (True, False):
        function = zenith.jit(steps, static_argnames="rows")
        expected = x
        for _ in range(4):
            expected = np.tanh(expected @ w if rows else w @ expected)
        np.testing.assert_allclose(function(x, w, rows=rows), expected, rtol=1e-12)
        assert ("matmul" in function.show("optimized")) == rows


def test_products_of_integers_stay():
    a, x = np.ones((4, 3), np.int64), np.arange(3)
    function = zenith.jit(lambda a, x: a @ x)
    np.testing.assert_array_equal(function(a, x), a @ x)
    assert "matmul" in function.show("optimized")


def test_targets_choose():
    assert matrix_vector_products in passes_for(cpu_target())
    assert matrix_vector_products not in passes_for(cuda_target())
