"""Matrices in few bits with scales for groups of terms: what they store, what products of them give."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.cpu.test_bytes import matrix
from zenith.backends.cpu.vectors import TABLE, host_features
from zenith.errors import ArgumentError, UnsupportedError
from zenith.ir.ops.scaled_product import packed, unpacked
from zenith.quantization.groups import in_groups
from zenith.trace.bind import b

GENERATOR = np.random.default_rng(0)
W = (GENERATOR.standard_normal((192, 80)) * 0.1).astype(np.float32)
V = (GENERATOR.standard_normal((80, 33)) * 0.1).astype(np.float32)
X = GENERATOR.standard_normal((5, 192)).astype(np.float32)
CHOICES = [(bits, size, symmetric) for bits in (4, 8) for size in (16, 64, 192) for symmetric in (False, True)]
NAMES = ("bits", "size", "symmetric")


def activated(x: Any) -> Any:
    return np.tanh(x @ W)


def relative(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def quantized(function: Any, bits: int, size: int, symmetric: bool) -> Any:
    options: dict[str, Any] = {"bits": bits, "granularity": f"group:{size}", "symmetric": symmetric}
    return zenith.quantize(function, [X], scheme="weight_only", **options)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("lead", [(), (2, 3)])
def test_levels_are_stored_and_found(bits: int, lead: tuple[int, ...]) -> None:
    levels = GENERATOR.integers(0, 1 << bits, (*lead, 24, 5), dtype=np.uint8)
    stored = packed(levels, bits)
    assert stored.shape == (*lead, 24 * bits // 8, 5)
    np.testing.assert_array_equal(unpacked(stored, bits), levels)


@pytest.mark.parametrize(NAMES, CHOICES)
def test_a_matrix_is_near_its_levels(bits: int, size: int, symmetric: bool) -> None:
    stored, groups = in_groups(W, bits, size, symmetric)
    assert stored.nbytes == W.size * bits // 8 and groups.scales.shape == (192 // size, 80)
    assert relative(groups.numbers(stored), W) < {4: 0.13, 8: 0.008}[bits]
    if not symmetric:
        assert relative(groups.numbers(stored), W) < relative(_numbers(bits, size), W)


def _numbers(bits: int, size: int) -> np.ndarray:
    stored, groups = in_groups(W, bits, size, True)
    return groups.numbers(stored)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [False, True])
def test_numbers_that_levels_can_say_are_exact(bits: int, symmetric: bool) -> None:
    """Also of one sign, and none but zeros."""
    lowest, highest = (-8, 7) if bits == 4 else (-128, 127)
    w = GENERATOR.integers(lowest, highest + 1, (32, 6)).astype(np.float32) / 4
    w[0], w[1] = lowest / 4, highest / 4
    w[:, 4], w[16:, 5] = 0, 0
    stored, groups = in_groups(w, bits, 32, symmetric)
    np.testing.assert_allclose(groups.numbers(stored), w, atol=1e-6)


def test_levels_of_gguf_are_found_again() -> None:
    """Q4_0: what transformers makes floats of is stored as it was."""
    blocks = GENERATOR.standard_normal((6, 8, 32)).astype(np.float32)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1)[..., None], -1)
    scales = (largest / -8).astype(np.float16).astype(np.float32)
    floats = (np.clip(np.rint(blocks / scales), -8, 7) * scales).reshape(6, -1).T
    stored, groups = in_groups(floats, 4, 32, symmetric=True)
    np.testing.assert_allclose(groups.numbers(stored), floats, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(NAMES, CHOICES)
def test_products_are_those_of_the_levels(bits: int, size: int, symmetric: bool) -> None:
    """But for the rounding of activations, half a percent."""
    small = quantized(lambda x: x @ W, bits, size, symmetric)
    stored, groups = in_groups(W, bits, size, symmetric)
    for x in (X, X[:1], X[:0], np.concatenate([X] * 30)):
        exact = x.astype(np.float64) @ groups.numbers(stored)
        assert small(x).shape == exact.shape
        assert not x.size or relative(small(x), exact) < 0.01
    assert small.cache_info().misses == 1
    assert "scaled_matmul" in str(small.show("optimized"))


def test_rows_do_not_know_each_other() -> None:
    small = quantized(lambda x: x @ W, 4, 64, True)
    x = X.copy()
    x[1], x[2, 7], x[3, 100] = 0, np.nan, np.inf
    found = small(x)
    np.testing.assert_array_equal(found[[0, 4]], small(X)[[0, 4]])
    assert not found[1].any() and np.isnan(found[2]).all() and not np.isfinite(found[3]).any()


def test_what_follows_is_part_of_the_kernel() -> None:
    bias = GENERATOR.standard_normal(80).astype(np.float32)
    small = quantized(lambda x: np.maximum(x @ W + bias, 0), 4, 64, True)
    stored, groups = in_groups(W, 4, 64, True)
    assert relative(small(X), np.maximum(X @ groups.numbers(stored) + bias, 0)) < 0.01
    assert "scaled_matmul_add_maximum" in str(small.show("kernels"))


def test_leading_axes_and_other_types() -> None:
    small = quantized(lambda x: x @ W, 8, 64, True)
    x = GENERATOR.standard_normal((2, 3, 4, 192)).astype(np.float32)
    np.testing.assert_array_equal(small(x), small(x.reshape(24, 192)).reshape(2, 3, 4, 80))
    half = zenith.quantize(
        lambda x: x @ W.astype(np.float16), [X.astype(np.float16)], scheme="weight_only", bits=8, granularity="group:64"
    )
    found = half(X.astype(np.float16))
    assert found.dtype == np.float16 and relative(found, X @ W) < 0.02


def test_equal_levels_with_other_scales_are_two_matrices() -> None:
    for symmetric, factor in ((False, 4.0), (True, 4.0), (True, -1.0)):
        other = (W * np.float32(factor)).copy()
        small = quantized(lambda x, other=other: (x @ W, x @ other), 4, 64, symmetric)
        first, second = small(X)
        assert relative(first, X @ W) < 0.15 and relative(second, X @ other) < 0.15


def test_what_has_no_whole_groups_stays() -> None:
    """80 terms are no groups of 64."""
    small = quantized(lambda x: x @ W @ V, 4, 64, True)
    assert len(small.report.products) == 1
    assert small.report.kept[0].why == "its 80 terms are no whole groups of 64"
    with pytest.raises(UnsupportedError, match="no whole groups"):
        zenith.quantize(lambda x: x @ V, [X[:, :80]], scheme="weight_only", bits=4, granularity="group:64")


def test_four_bits_take_an_eighth_and_the_scales() -> None:
    small = quantized(lambda x: x @ W, 4, 64, True)
    assert small.report.after == W.size // 2 + W.size // 64 * 4
    whole = zenith.quantize(lambda x: x @ W, [X], scheme="weight_only", bits=4)  # one group to a column
    assert whole.report.after < small.report.after and relative(whole(X), X @ W) < 0.2


def test_saved_pickled_and_ejected(tmp_path: Path) -> None:
    small = quantized(activated, 4, 64, False)
    expected, path = small(X), tmp_path / "small.zenith"
    small.save(path)
    np.testing.assert_array_equal(zenith.load(path)(X), expected)
    small.eject(tmp_path / "ejected.py")
    script = "import sys, numpy as np; sys.path.insert(0, sys.argv[1]); import ejected; x = np.load(sys.argv[2]); "
    script += "np.save(sys.argv[3], ejected.activated(x))"
    np.save(tmp_path / "x.npy", X)
    command = [sys.executable, "-c", script, str(tmp_path), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    subprocess.run(command, check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)

    np.testing.assert_array_equal(pickle.loads(pickle.dumps(small))(X), expected)


def test_released_weights_keep_their_program() -> None:
    small = zenith.quantize(
        lambda x: x @ W, [X], scheme="weight_only", bits=4, granularity="group:64", release_weights=True
    )
    np.testing.assert_array_equal(small(X), small(X))
    assert len(small._quantizer.table) == 3  # the matrix, scales, shifts
    assert all(0 in array.strides for name, array in small._quantizer.table.items() if array.ndim == 2)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"granularity": "group:0"}, "granularity is 'group:0'"),
        ({"granularity": "group"}, "granularity is 'group'"),
        ({"granularity": 64}, "granularity is 64"),
        ({"bits": 3}, "bits is 3"),
        ({"bits": 4.0}, "bits is 4.0"),
        ({"granularity": "group:²"}, "granularity is"),
        ({"scheme": "dynamic", "bits": 4}, "weight_only"),
        ({"granularity": "tensor", "bits": 4}, "weight_only"),
    ],
)
def test_what_there_is_not(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ArgumentError, match=what):
        zenith.quantize(lambda x: x @ W, [X], **{"scheme": "weight_only", **options})


@pytest.mark.parametrize("rows", [1, 3, 4, 5, 133])
@pytest.mark.parametrize("bits", [4, 8])
def test_extreme_levels_are_exact(rows: int, bits: int) -> None:
    """Sums of a group are integers, which no instruction may saturate; scales of one show them."""
    x, w = matrix(rows, 256, np.int8), matrix(256 * bits // 8, 70, np.uint8, 1)
    ones = np.ones((rows, 4), np.float32), np.ones((4, 70), np.float32)
    found = zenith.jit(lambda x: b.scaled_matmul(x, w, *ones, bits=bits, group=64))(x)
    np.testing.assert_array_equal(found, x.astype(np.int64) @ (unpacked(w, bits).astype(np.int64) - (1 << (bits - 1))))


@pytest.mark.parametrize("isa", [name for name, row in TABLE.items() if row.runs_on(host_features())])
def test_every_instruction_set(isa: str) -> None:
    script = (
        "from tests.quantization.test_groups import *\n"
        "for bits in (4, 8):\n"
        "    test_extreme_levels_are_exact(5, bits)\n"
        "    test_products_are_those_of_the_levels(bits, 64, False)"
    )
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "ZENITH_ISA": isa}, check=True)


@pytest.mark.parametrize("layout", ["s", "s.T", "s[::2, ::-1]", "np.broadcast_to(s[0], (4, 4))"])
def test_scales_of_any_layout(layout: str) -> None:
    """Found by a model whose groups are heads, whose scales are a transpose."""
    code, x, w = compile(layout, layout, "eval"), matrix(4, 64, np.int8), matrix(32, 20, np.uint8, 1)
    scales = GENERATOR.uniform(0.5, 1, (4, 20)).astype(np.float32)

    def product(s: Any) -> Any:
        left = eval(code, {"s": s, "np": np})
        return b.scaled_matmul(x[: left.shape[0]], w, left, scales, bits=4, group=16)

    s = GENERATOR.uniform(0.5, 1, (4, 4)).astype(np.float32)
    left = eval(code, {"s": s, "np": np})
    sums = np.einsum("rgk,gkj->rgj", x[: len(left)].reshape(-1, 4, 16).astype(float),
                     unpacked(w, 4).reshape(4, 16, 20) - 8.0)  # fmt: skip
    expected = np.einsum("rgj,rg,gj->rj", sums, left, scales)
    np.testing.assert_allclose(zenith.jit(product)(s), expected, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("layout", ["x.T", "x[::2]", "x[:, ::-1]", "np.broadcast_to(x[0], (3, 64))"])
def test_left_operands_of_any_layout(layout: str) -> None:
    w = matrix(32, 20, np.uint8)
    scales = GENERATOR.uniform(0.5, 1, (1, 20)).astype(np.float32)

    def product(x: Any) -> Any:
        left = eval(layout, {"x": x, "np": np})
        return b.scaled_matmul(left, w, np.ones((left.shape[0], 1), np.float32), scales, bits=4, group=64)

    x = matrix(64, 64, np.int8)
    left = eval(layout, {"x": x, "np": np})
    expected = (left.astype(np.int64) @ (unpacked(w, 4).astype(np.int64) - 8)) * scales
    np.testing.assert_allclose(zenith.jit(product)(x), expected, rtol=1e-6)
