"""``zenith.quantize`` on functions of arrays: exactness, accuracy, memory, and what it refuses."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zenith
from zenith.errors import ArgumentError, UnsupportedError, ValueTypeError
from zenith.quantization.integers import Levels, in_bytes

GENERATOR = np.random.default_rng(0)
W = (GENERATOR.standard_normal((64, 96)) * 0.1).astype(np.float32)
V = (GENERATOR.standard_normal((96, 32)) * 0.1).astype(np.float32)
B = GENERATOR.standard_normal(96).astype(np.float32)
BATCHES = [GENERATOR.standard_normal((16, 64)).astype(np.float32) for _ in range(4)]
X = GENERATOR.standard_normal((9, 64)).astype(np.float32)


def two_layers(x: Any) -> Any:
    return np.maximum(x @ W + B, 0) @ V


def error(result: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(result - reference) / np.linalg.norm(reference))


@pytest.mark.parametrize("smooth", [0, 0.5, "auto"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("granularity", ["channel", "tensor"])
@pytest.mark.parametrize("scheme", ["static", "dynamic"])
def test_results_are_near(scheme: Any, granularity: Any, symmetric: bool, smooth: Any) -> None:
    small = zenith.quantize(
        two_layers, BATCHES, scheme=scheme, granularity=granularity, symmetric=symmetric, smooth=smooth
    )
    assert error(small(X), two_layers(X)) < 0.03
    for rows in (1, 2, 40):
        x = np.resize(X, (rows, 64))
        assert error(small(x), two_layers(x)) < 0.04
    assert small.cache_info().misses == 1
    assert str(small.show("optimized")).count("matmul_integer") >= 2


@pytest.mark.parametrize("method", ["minmax", "percentile", "mse", "entropy"])
def test_every_method_finds_ranges(method: Any) -> None:
    small = zenith.quantize(two_layers, BATCHES, method=method)
    assert error(small(X), two_layers(X)) < 0.06
    for product in small.report.products:
        assert product.range is not None and product.seen is not None
        step = (product.range[1] - product.range[0]) / 255
        assert product.range[0] >= product.seen[0] - step and product.range[1] <= product.seen[1] + step


def test_the_arithmetic_is_that_of_the_formula() -> None:
    """Bit for bit what integers and scales give, computed here in NumPy: nothing is multiplied as a float."""
    small = zenith.quantize(lambda x: x @ W, BATCHES, smooth=0)
    (product,) = small.report.products
    levels, columns = in_bytes(W, by_column=True, symmetric=False)
    assert product.range is not None
    seen = np.stack(BATCHES)
    chosen = Levels.of(float(seen.min()), float(seen.max()), symmetric=False)
    assert chosen.range == pytest.approx(product.range)
    q = np.clip(np.rint(X * np.float32(1 / chosen.scale)) + chosen.zero, 0, 255).astype(np.int64)
    exact = (q - chosen.zero) @ (levels.astype(np.float64) - columns.zeros) * (chosen.scale * columns.scales)
    np.testing.assert_allclose(small(X), exact, rtol=2e-6, atol=2e-6)


def test_matrices_of_more_axes_and_other_types() -> None:
    stacked = np.stack([X, 2 * X])
    small = zenith.quantize(two_layers, [stacked])
    assert error(small(stacked), two_layers(stacked)) < 0.03
    wide = zenith.quantize(lambda x: x @ W.astype(np.float64), [X.astype(np.float64)])
    result = wide(X.astype(np.float64))
    assert result.dtype == np.float64 and error(result, X @ W) < 0.03
    transposed = np.ascontiguousarray(W.T)
    assert error(zenith.quantize(lambda x: x @ transposed.T, [X])(X), X @ W) < 0.03


def test_operands_that_several_products_share() -> None:
    def heads(x: Any) -> Any:
        return x @ W, np.tanh(x @ (2 * W)), x @ V.T[:, :64].T

    small = zenith.quantize(heads, BATCHES)
    for result, reference in zip(small(X), heads(X), strict=True):
        assert error(result, reference) < 0.03


def test_outliers_of_a_channel_migrate() -> None:
    scales = np.ones(64, np.float32)
    scales[5] = 100
    batches = [batch * scales for batch in BATCHES]
    plain, smooth = (zenith.quantize(lambda x: x @ W, batches, smooth=s) for s in (0, "auto"))
    reference = (X * scales) @ W
    lost = [error(f(X * scales)[:, :], reference) for f in (plain, smooth)]
    assert lost[1] < lost[0] / 2


def test_zeros_constants_and_empty_arrays() -> None:
    with pytest.raises(UnsupportedError, match="nothing but zeros"):
        zenith.quantize(lambda x: x @ W, [np.zeros_like(X)])
    with pytest.raises(UnsupportedError, match="no numbers"):
        zenith.quantize(lambda x: x @ W, [X[:0]])
    of_zeros = zenith.quantize(lambda x: x @ np.zeros_like(W), [X])
    assert (of_zeros(X) == 0).all()
    small = zenith.quantize(two_layers, [np.zeros((0, 64), np.float32), X])
    assert small(np.zeros((0, 64), np.float32)).shape == (0, 32)
    dynamic = zenith.quantize(two_layers, [X], scheme="dynamic")
    assert error(dynamic(np.zeros_like(X)), two_layers(np.zeros_like(X))) < 0.03


def test_what_is_clipped_saturates() -> None:
    small = zenith.quantize(lambda x: x @ np.eye(64, dtype=np.float32), BATCHES, smooth=0)
    (product,) = small.report.products
    assert product.range is not None
    result = small(np.full((1, 64), 1e30, np.float32)), small(np.full((1, 64), -np.inf, np.float32))
    np.testing.assert_allclose(result[0], product.range[1], rtol=0.02)
    np.testing.assert_allclose(result[1], product.range[0], rtol=0.02)


def test_memory_is_a_quarter() -> None:
    small = zenith.quantize(two_layers, BATCHES, release_weights=True)
    small(X)
    assert small.report.before == W.nbytes + V.nbytes
    assert small.report.after < 0.32 * small.report.before  # with scales, sums and zeros of short columns
    assert error(small(X), two_layers(X)) < 0.03


def test_saved_pickled_and_ejected(tmp_path: Path) -> None:
    small = zenith.quantize(two_layers, BATCHES)
    result = small(X)
    for path in (tmp_path / "small.zenith", tmp_path / "folder"):
        small.save(path)
        np.testing.assert_array_equal(zenith.load(path)(X), result)
    small.eject(tmp_path / "ejected.py")
    assert "import zenith" not in (tmp_path / "ejected.py").read_text()
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(again(X), result)
    assert str(again.report) == str(small.report)


def test_it_is_a_compiled_function_in_all_else() -> None:
    small = zenith.quantize(zenith.jit(two_layers), iter(BATCHES))
    results = dict[int, np.ndarray]()

    def run(number: int) -> None:
        results[number] = small(X)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all((r == results[0]).all() for r in results.values())
    gradient = zenith.grad(lambda x: small(x).sum())(X)
    np.testing.assert_allclose(gradient, zenith.grad(lambda x: two_layers(x).sum())(X), rtol=1e-5)
    text = str(small.show("graph"))
    assert str(zenith.parse(text)).split() == [w for line in text.splitlines() for w in line.split("  #")[0].split()]


def test_excluded_products_and_others_stay() -> None:
    small = zenith.quantize(two_layers, BATCHES, exclude=["*#2"])
    assert [kept.why for kept in small.report.kept] == ["it is excluded"]
    assert error(small(X), two_layers(X)) < 0.03
    assert str(small.show("optimized")).count("matmul_integer(") == 1

    def attention(x: Any) -> Any:
        h = x @ W
        return (h @ h.T) @ h

    small = zenith.quantize(attention, BATCHES)
    assert {kept.why for kept in small.report.kept} == {"both operands differ from call to call"}
    assert error(small(X), attention(X)) < 0.05

    short = zenith.quantize(attention, BATCHES, precision="bf16")
    assert error(short(X), attention(X)) < 0.05
    assert 1e-4 < error(short(X), small(X)) < 0.01
    of_jit = zenith.quantize(zenith.jit(attention, precision="bf16"), BATCHES)
    np.testing.assert_array_equal(of_jit(X), short(X))
    exact = zenith.quantize(zenith.jit(attention, precision="bf16"), BATCHES, precision="exact")
    np.testing.assert_array_equal(exact(X), small(X))


def test_the_report_says_what_was_done() -> None:
    small = zenith.quantize(two_layers, BATCHES)
    text, data = str(small.report), small.report.json()
    assert "test_quantize.py" in text and "64 x 96" in text and "of before" in text
    assert data["batches"] == 4 and len(data["products"]) == 2  # type: ignore[arg-type]
    assert 0 < small.report.mse < 1e-5


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: zenith.quantize(two_layers), ArgumentError, "calibration has no batch"),
        (lambda: zenith.quantize(two_layers, []), ArgumentError, "calibration has no batch"),
        (lambda: zenith.quantize(two_layers, X), ValueTypeError, "calibration is a ndarray"),
        (lambda: zenith.quantize(two_layers, [X * np.nan]), ArgumentError, "batch 0 gives nan at"),
        (lambda: zenith.quantize(two_layers, [X, X / 0.0]), ArgumentError, "batch 1 gives an infinity at"),
        (lambda: zenith.quantize(lambda x: x + 1, [X]), UnsupportedError, "no product by a fixed matrix"),
        (lambda: zenith.quantize(lambda x, w: x @ w, [(X, W)]), UnsupportedError, "both operands differ"),
        (lambda: zenith.quantize(lambda x: W.T @ x.T, [X]), UnsupportedError, "its left operand is the fixed one"),
        (lambda: zenith.quantize(two_layers, [X], scheme="int4"), ArgumentError, "scheme is 'int4'"),  # type: ignore[arg-type]
        (lambda: zenith.quantize(two_layers, [X], percentile=3), ArgumentError, "percentile is 3"),
        (lambda: zenith.quantize(two_layers, [X], precision="bf8"), ArgumentError, "precision='bf8' is none"),
        (lambda: zenith.quantize(two_layers, [X], percentile="99"), ArgumentError, "percentile is '99'"),  # type: ignore[arg-type]
        (lambda: zenith.quantize(two_layers, [X], smooth="all"), ArgumentError, "smooth is 'all'"),  # type: ignore[arg-type]
        (lambda: zenith.quantize(two_layers, [X], exclude="*#2"), ArgumentError, "exclude is"),
        (lambda: zenith.quantize(two_layers, [X], exclude=["w*"]), ArgumentError, "the name of no product"),
        (lambda: zenith.quantize(two_layers, {"x": X}), ValueTypeError, "calibration is a dict"),
        (lambda: zenith.quantize(two_layers, [X], smooth=2), ArgumentError, "smooth is 2"),
        (lambda: zenith.quantize(zenith.quantize(two_layers, [X]), [X]), ArgumentError, "is quantised already"),
        (lambda: zenith.quantize(3, [X]), ValueTypeError, "jit takes a function"),
    ],
)
def test_what_is_refused(make: Any, kind: type[Exception], says: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(kind, match=says):
        make()


def test_calls_of_another_kind_are_refused() -> None:
    def varied(x: Any) -> Any:
        return x @ W @ V if x.ndim == 2 else x @ W

    small = zenith.quantize(varied, [X])
    assert error(small(X), X @ W @ V) < 0.03 and error(small(X[None]), (X @ W)[None]) < 0.03
    with pytest.raises(UnsupportedError, match="products that were not calibrated"):
        zenith.quantize(varied, [X[None]])(X)
    with pytest.raises(UnsupportedError, match="batch 1 is a call of another kind"):
        zenith.quantize(varied, [X, X[None]])


A = (GENERATOR.standard_normal((64, 64)) * 0.1).astype(np.float32)
A2 = (GENERATOR.standard_normal((64, 64)) * 0.1).astype(np.float32)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: zenith.scan(lambda c, _: (np.tanh(c @ A), None), x @ A2, None, length=3)[0],
        lambda x: zenith.fori_loop(0, 3, lambda i, c: np.tanh(c * 2.0) + c, x @ A2),
        lambda x: zenith.cond(x.sum() > 0, lambda c: c @ A, lambda c: c, x @ A2),
    ],
)
def test_bodies_of_loops_and_branches_stay(function: Any) -> None:
    small = zenith.quantize(function, [X])
    assert error(small(X), zenith.jit(function)(X)) < 0.03
    assert len(small.report.products) == 1


def test_matrices_are_known_by_their_numbers() -> None:
    """Not by how many there are, and not by their shapes: another kind of call may multiply by another one."""
    small = zenith.quantize(lambda x: x @ (A if x.ndim == 2 else A2), [X])
    assert error(small(X), X @ A) < 0.03
    with pytest.raises(UnsupportedError, match="not calibrated"):
        small(X[None])


def test_sums_that_may_exceed_32_bits_stay_in_floats() -> None:
    terms = 1 << 17
    w = np.concatenate([np.ones((terms, 2)), np.full((terms, 1), -1)], 1).astype(np.float32)
    with pytest.raises(UnsupportedError, match="its sums may exceed 32 bits"):
        zenith.quantize(lambda x: x @ w, [np.ones((2, terms), np.float32)], symmetric=True)


def test_nan_in_a_matrix_stays_nan() -> None:
    w = A.copy()
    w[3, 4] = np.nan
    small = zenith.quantize(lambda x: (x @ w, x @ A), [X])
    assert [kept.why for kept in small.report.kept] == ["its matrix has nan or infinities"]
    assert np.isnan(small(X)[0][:, 4]).all()


@pytest.mark.parametrize("others", [X.reshape(3, 3, 64), X.astype(np.float64), X[:2]])
def test_batches_of_several_kinds(others: np.ndarray) -> None:
    small = zenith.quantize(lambda x: (x @ A if x.shape[0] > 4 else (x + 0) @ A) @ A2, [X, others, X])
    assert error(small(X), X @ A @ A2) < 0.03 and error(small(others), others @ A @ A2) < 0.03
    assert small.report.batches == 3


def test_channels_that_were_zero_are_not_the_only_ones_that_count() -> None:
    x = X * 1000
    x[:, 0] = 0
    small = zenith.quantize(lambda x: x @ A, [x], smooth=0.5)
    x[:, 0] = 1000
    assert error(small(x), x @ A) < 0.05


def test_smoothing_that_is_chosen_serves_new_rows_too() -> None:
    generator = np.random.default_rng(5)
    batches = [generator.standard_normal((8, 64)).astype(np.float32) for _ in range(20)]
    fresh = generator.standard_normal((400, 64)).astype(np.float32)
    lost = {s: error(zenith.quantize(two_layers, batches, smooth=s)(fresh), two_layers(fresh)) for s in (0, "auto")}
    assert lost["auto"] < 1.3 * lost[0]


@pytest.mark.parametrize("scale", [1e-36, 1e-20, 1e20, 1e36])
@pytest.mark.parametrize("scheme", ["static", "dynamic"])
def test_numbers_of_any_size(scale: float, scheme: Any) -> None:
    x = X * np.float32(scale)
    small = zenith.quantize(lambda x: x @ A, [x], scheme=scheme)
    assert error(small(x).astype(np.float64) / scale, X @ A) < 0.03


def test_a_batched_function_and_lists_of_arguments() -> None:
    small = zenith.quantize(zenith.vmap(lambda v: np.tanh(v @ A)), [[X], [X]])
    assert error(small(X), np.tanh(X @ A)) < 0.03 and len(small.report.products) == 1


def test_a_matrix_that_is_used_twice_is_stored_once() -> None:
    small = zenith.quantize(lambda x: np.tanh(x @ A) @ A, BATCHES, smooth=0)
    assert error(small(X), np.tanh(X @ A) @ A) < 0.03
    assert len(small.graph.weights) == 1


def test_a_call_inside_of_another_program_is_the_function() -> None:
    small = zenith.quantize(lambda x: x @ A, [X], release_weights=True)
    np.testing.assert_array_equal(zenith.jit(lambda x: small(x))(X), zenith.jit(lambda x: x @ A)(X))
    assert error(small(X), X @ A) < 0.03  # its weights are still there


def test_between_layers_there_are_bytes() -> None:
    """Also where matrices are square, and a product of row sums and a column's zeros has the shape of a layer."""
    small = zenith.quantize(lambda x: np.maximum(np.maximum(x @ A, 0) @ A2, 0) @ A, BATCHES, smooth=0)
    assert error(small(X), np.maximum(np.maximum(X @ A, 0) @ A2, 0) @ A) < 0.03
    assert "s0 = ((4*x0 + 63)//64)\n" in small.show("plan")
    assert "arena 64*s0 + 128*x0 bytes" in small.show("plan")  # two layers, and a number a row


@pytest.mark.parametrize("symmetric", [False, True])
def test_weights_alone(symmetric: bool) -> None:
    """Bytes of matrices are read by the product itself, which has floats in registers: none are in memory."""
    small = zenith.quantize(two_layers, [X], scheme="weight_only", symmetric=symmetric)
    for rows in (1, 9, 40):
        x = np.resize(X, (rows, 64))
        assert error(small(x), two_layers(x)) < 0.01
    outliers = X.copy()
    outliers[0] *= 1000  # activations have no levels
    assert error(small(outliers), two_layers(outliers)) < 0.02
    kernels = str(small.show("kernels"))
    assert "packed = i8_buffer" in kernels and "f32_buffer(args, 3" in kernels
    stacked = np.stack([X, X])
    assert error(small(stacked), two_layers(stacked)) < 0.01
    assert all(product.range is None for product in small.report.products)


def test_a_byte_that_a_product_and_another_read() -> None:
    table = (GENERATOR.integers(-128, 128, (64, 5))).astype(np.int8)

    def both(x: Any, table: Any) -> Any:
        wide = table.astype(np.float32)
        return x @ wide, wide.sum(), wide.T @ wide

    for result, wanted in zip(zenith.jit(both)(X, table), both(X, table), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-2)
    moved = zenith.jit(lambda x, t: x @ t.astype(np.float32)[::-1, ::2] + x @ t.T.astype(np.float32).T[:, :3])
    wide = table.astype(np.float32)
    np.testing.assert_allclose(moved(X, table), X @ wide[::-1, ::2] + X @ wide[:, :3], rtol=1e-4, atol=1e-2)


def test_products_by_one_matrix_are_known_by_what_they_multiply() -> None:
    """Another kind of call may have them in another order."""

    def run(x: Any) -> Any:
        if x.shape[0] > 5:
            return x @ A, (100 * x) @ A
        large = (100 * x) @ A
        return x @ A, large

    small = zenith.quantize(run, [X], smooth=0)
    for x in (X, X[:4]):
        for result, wanted in zip(small(x), run(x), strict=True):
            assert error(result, wanted) < 0.03
