"""Conversions of 16-bit floats: every bit pattern in both directions, on every instruction set, by hardware or not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.backends.running import call, compiled
from zenith.backends.cpu.vectors import TABLE, host_features
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.primitive import get
from zenith.ir.text import parse
from zenith.ir.types import DTYPES, ArrayType, bfloat16, bool_, dtype_of, float16, float32, float64, int64

ROOT = Path(__file__).resolve().parents[3]
NARROW = pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)


def cast(array: np.ndarray, *targets: object, backend: str = "cpu") -> list[np.ndarray]:
    """An array converted to element types, by one program."""
    source = dtype_of(array.dtype)
    assert source is not None
    graph = Graph("casts")
    x = graph.add_input(ArrayType(source, [symbol("n")]), "x")
    graph.set_outputs(graph.add(get("cast"), (x,), {"dtype": t})[0] for t in targets)
    return call(compiled(graph, backend), graph, [array])


def patterns(dtype) -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


def expected_of(array: np.ndarray, dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy)


def same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits, but for the payload of nan."""
    assert found.dtype == expected.dtype
    with np.errstate(invalid="ignore"):  # of bfloat16, ml_dtypes asks for nan by comparing
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(found), nan)
    bits = f"u{found.dtype.itemsize}"
    np.testing.assert_array_equal(found.view(bits)[~nan], expected.view(bits)[~nan])


@NARROW
@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_every_pattern_is_widened_exactly(dtype, backend: str) -> None:
    x = patterns(dtype)
    for found, target in zip(cast(x, float32, float64, backend=backend), (float32, float64), strict=True):
        same_bits(found, expected_of(x, target))


@NARROW
def test_every_pattern_comes_back(dtype) -> None:
    x = patterns(dtype)
    for wide in (float32, float64):
        same_bits(cast(expected_of(x, wide), dtype)[0], x)


@NARROW
def test_every_pattern_in_every_other_type(dtype) -> None:
    x, targets = patterns(dtype), [t for t in DTYPES if t.is_float or t in (bool_, int64)]
    for found, target in zip(cast(x, *targets), targets, strict=True):
        expected = expected_of(x, target)
        if target.is_float:
            same_bits(found, expected)
        else:
            np.testing.assert_array_equal(found, expected)


def halfway(dtype) -> np.ndarray:
    """All numbers between two neighbours at which rounding changes its mind, and those just above and below."""
    finite = patterns(dtype)[: 0x7C00 if dtype == float16 else 0x7F80].astype(np.float64)
    top = 2 * finite[-1] - finite[-2]
    middle = (np.append(finite[1:], top) + finite) / 2
    return np.concatenate([middle, -middle])


@NARROW
@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_ties_go_to_even_and_large_numbers_to_infinity(dtype, backend: str) -> None:
    middle = halfway(dtype).astype(np.float32)
    for x in (middle, np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(-np.inf))):
        same_bits(cast(x, dtype, backend=backend)[0], expected_of(x, dtype))
    assert np.isinf(cast(middle, dtype)[0]).sum() == 2


@NARROW
def test_a_float64_is_rounded_as_numpy_rounds_it(dtype) -> None:
    """To float16 at once; bfloat16 is made from the float32, in ml_dtypes as here."""
    middle = halfway(dtype)
    for x in (middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), middle * (1 + 1e-12)):
        same_bits(cast(x, dtype)[0], expected_of(x, dtype))


@NARROW
def test_integers(dtype) -> None:
    rng = np.random.default_rng(0)
    near = np.array([0, 1, -1, 2048, 2049, 2051, 65504, 65519, 65520, 2**24 + 1, 2**31 - 1, -(2**31)])
    small = np.concatenate([near, rng.integers(-(2**31), 2**31, 1000), rng.integers(-70000, 70000, 1000)])
    for x in (small, small.astype(np.int32), np.abs(small).astype(np.uint32), small > 0):
        same_bits(cast(x, dtype)[0], expected_of(x.astype(np.float32), dtype))


def test_two_lanes_are_rounded() -> None:
    """Products along 35 elements of 3 rows: LLVM gives the last of them two lanes, for which it lacks an operation."""
    graph = parse("def f(a: f16[3, 35]):\n    v = cumprod(a, axis=1, reverse=False)\n    w = abs(v)\n    return (w,)")
    a = np.random.default_rng(0).integers(-3, 4, (3, 35)).astype(np.float16)
    same_bits(call(compiled(graph, "cpu"), graph, [a])[0], interpret(graph, a)[0])


def test_results_in_double_precision_are_rounded_to_float32_first() -> None:
    """LLVM would make one conversion of two, and call a function for it that is in no library."""
    graph = parse("def f(a: f16[9]):\n    v = mul(a, a)\n    w = arccos(v)\n    return (w,)")
    a = np.linspace(0, 1, 9, dtype=np.float16)
    same_bits(call(compiled(graph, "cpu"), graph, [a])[0], interpret(graph, a)[0])


PROGRAM = """
import sys
import numpy as np
from tests.backends.cpu import test_narrow as t
from zenith.backends.cpu.vectors import converts_float16
for dtype in (t.float16, t.bfloat16):
    t.test_every_pattern_is_widened_exactly(dtype, "cpu")
    t.test_every_pattern_comes_back(dtype)
    t.test_ties_go_to_even_and_large_numbers_to_infinity(dtype, "cpu")
    t.test_a_float64_is_rounded_as_numpy_rounds_it(dtype)
    t.test_products(dtype, 7, False)
print(converts_float16())
"""


@NARROW
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("rows", [1, 7, 150])
def test_products(dtype, rows: int, transposed: bool) -> None:
    """Sums in float32 of terms that are exact, the result rounded once."""
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, 600)).astype(dtype.numpy)
    w = rng.standard_normal((70, 600) if transposed else (600, 70)).astype(dtype.numpy)
    graph = Graph("product")
    left = graph.add_input(ArrayType(dtype, [symbol("n"), 600]), "x")
    right = graph.add_constant(w)
    right = graph.add(get("transpose"), (right,), {"axes": (1, 0)})[0] if transposed else right
    graph.set_outputs(graph.add(get("matmul"), (left, right)))
    executable = compiled(graph, "cpu")
    (found,) = call(executable, graph, [x])
    exact = x.astype(np.float64) @ (w.T if transposed else w).astype(np.float64)
    rounded = np.spacing(np.abs(exact).astype(dtype.numpy)).astype(np.float64) * 0.5
    sums = 600 * 2.0**-24 * (np.abs(x.astype(np.float64)) @ np.abs((w.T if transposed else w).astype(np.float64)))
    assert (np.abs(found.astype(np.float64) - exact) <= rounded + sums).all()
    assert not any("f32_buffer" in kernel.text for kernel in executable.kernels.values()), "16 bits in memory"


@pytest.mark.parametrize("isa", TABLE)
def test_on_every_instruction_set(isa: str) -> None:
    if not TABLE[isa].runs_on(host_features()):
        pytest.skip(f"this processor does not execute {isa}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ZENITH_ISA": isa, "ZENITH_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    if isa == "portable" and host_features().get("f16c"):
        assert done.stdout.split() == ["False"], "the integers have been tried"
