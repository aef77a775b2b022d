"""Tails of rows: what whole vectors leave is computed in masked vectors, and is the same as elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import zenith
from zenith.backends.cpu import compiler
from zenith.backends.cpu.loop_tails import with_tails
from zenith.backends.cpu.texts import kernel_function
from zenith.backends.cpu.vectors import select

ROW = """\
def kernel(begin, end, args):
    x = f32_buffer(args, 0, 2)
    out = f32_buffer(args, 1, 2)
    n = args[2]
    for row in range(begin, end):
        acc = f32(0.0)
        for j in range(0, {stop}):
            v1 = {value}
            acc = f32(fold_add(acc, v1))
        out[row] = acc
"""


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_any_length(dtype: type) -> None:
    """Whole rows too: an element that a mask leaves out is neither read nor written."""
    function, total = zenith.jit(softmax), zenith.jit(lambda x: np.tanh(x).sum(-1))
    for length in (*range(1, 36), 63, 64, 65, 100, 127, 128, 130, 200):
        x = np.random.default_rng(length).standard_normal((5, length)).astype(dtype)
        whole, exact = x.astype(np.float64), np.finfo(dtype).eps
        np.testing.assert_allclose(function(x), softmax(whole), rtol=32 * exact, err_msg=str(length))
        np.testing.assert_allclose(total(x), np.tanh(whole).sum(-1), rtol=0, atol=length * exact, err_msg=str(length))


@pytest.mark.skipif(not select().has_masks, reason="without masks there are no tails")
@pytest.mark.parametrize("stop", ["n", "30"])
def test_tails_are_masked_vectors(stop: str) -> None:
    text = ROW.format(stop=stop, value="f32(exp(x[row*n + j]))")
    module = str(compiler.kernel_module(kernel_function(text), "tails"))
    assert "@llvm.masked.load.v16f32" in module


@pytest.mark.parametrize(("stop", "value", "tails"), [
    ("n", "f32(exp(x[row*n + j]))", 1), ("100", "f32(exp(x[row*n + j]))", 1),
    ("n", "x[row*n + j]", 0),  # nothing that takes long
    ("128", "f32(exp(x[row*n + j]))", 0), ("8", "f32(exp(x[row*n + j]))", 0),  # whole vectors, and unrolled
])  # fmt: skip
def test_which_loops_have_tails(stop: str, value: str, tails: int) -> None:
    text = ROW.format(stop=stop, value=value)
    assert with_tails(text).count("tail(") == tails
    assert tails or with_tails(text) == text


def test_a_loop_without_iterations_has_a_tail_without_any() -> None:
    done: list[int] = []
    text = "for j in range(0, n):\n    exp(j)\n"
    for count in (-70, -3, 0, 1, 64, 65):
        exec(with_tails(text), {"n": count, "exp": done.append, "tail": range})
        assert done == [*range(count)]
        done.clear()


def test_loops_with_loops_inside_have_none() -> None:
    text = "for i in range(0, n):\n    for j in range(0, m):\n        v = exp(x[i*m + j])\n        out[i*m + j] = v\n"
    assert with_tails(text).splitlines()[:3] == [
        "for i in range(0, n):", "    for j in range(0, max(m, 0) & -64):", "        v = exp(x[i*m + j])",
    ]  # fmt: skip
