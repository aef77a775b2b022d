"""Attention that was written by hand becomes the primitive; what only looks like it, or is read elsewhere, stays."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.passes.compare import assert_same_results, expect, program
from zenith.passes.attention import attention
from zenith.passes.movement import movement
from zenith.passes.pipeline import run

OPERANDS = "q: f32[h, s, 8], k: f32[h, t, 8], v: f32[h, t, e], m: f32[h, s, t], c: bool[h, s, t]"
SOFTMAX = """
    top = reduce_max(x, axes=(2,))
    top1 = broadcast(top, shape=(h, s, t), axes=(0, 1))
    y = sub(x, top1)
    z = exp(y)
    sum = reduce_sum(z, axes=(2,))
    sum1 = broadcast(sum, shape=(h, s, t), axes=(0, 1))
    w = div(z, sum1)
    r = matmul(w, v)
"""
PRODUCTS = """
    k1 = transpose(k, axes=(0, 2, 1))
    p = matmul(q, k1)
    n = literal(value=0.5, dtype=f32)
    n1 = broadcast(n, shape=(h, s, t), axes=())
    o = literal(value=-inf, dtype=f32)
    o1 = broadcast(o, shape=(h, s, t), axes=())
"""
SCORES = {
    "x = mul(p, n1)": "q, k2, v, scale=0.5, causal=False, mask='none', empty=nan",
    "x = div(p, n1)": "q, k2, v, scale=2.0, causal=False, mask='none', empty=nan",
    "x = add(m, p)": "q, k2, v, m, scale=1.0, causal=False, mask='add', empty=nan",
    "p1 = mul(n1, p)\nx = add(p1, m)": "q, k2, v, m, scale=0.5, causal=False, mask='add', empty=nan",
    "p1 = mul(p, n1)\nx = where(c, p1, o1)": "q, k2, v, c, scale=0.5, causal=False, mask='bool', empty=nan",
    "x = where(c, o1, p)": "q, k2, v, d, scale=1.0, causal=False, mask='bool', empty=nan",
}
AFTER = "k1 = transpose(k, axes=(0, 2, 1))\nk2 = transpose(k1, axes=(0, 2, 1))\nd = bit_not(c)\nr, l = attention({})\n"


@pytest.mark.parametrize("scores", SCORES)
def test_scores_of_every_kind(scores):
    before, after = PRODUCTS + scores + SOFTMAX + "return (r,)", AFTER.format(SCORES[scores]) + "return (r,)"
    result = expect(attention, OPERANDS, before, after)
    assert_same_results(program(OPERANDS, before), result, {"h": 2, "s": 5, "t": 7, "e": 3})


OTHERWISE = {
    "the scores are returned": (SOFTMAX, "return (r, x)"),
    "the weights are read": (SOFTMAX + "w1 = exp(w)\n", "return (r, w1)"),
    "another axis": (SOFTMAX.replace("axes=(2,)", "axes=(1,)").replace("axes=(0, 1)", "axes=(0, 2)").replace(
        "shape=(h, s, t), axes=(0, 1)", "shape=(h, s, t), axes=(0, 2)"), "return (r,)"),
    "another sum": (SOFTMAX.replace("reduce_sum(z", "reduce_sum(y"), "return (r,)"),
    "another maximum": (SOFTMAX.replace("reduce_max(x", "reduce_max(m"), "return (r,)"),
    "no exponential": (SOFTMAX.replace("exp(y)", "tanh(y)"), "return (r,)"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERWISE)
def test_anything_else_stays(name):
    steps, end = OTHERWISE[name]
    before = PRODUCTS + "x = mul(p, n1)" + steps + end
    expect(attention, OPERANDS, before, before)


def test_a_mask_that_is_no_infinity_stays():
    before = (PRODUCTS + "x = where(c, p, o1)" + SOFTMAX + "return (r,)").replace("-inf", "-1000.0")
    expect(attention, OPERANDS, before, before)


def by_hand(q, k, v, mask):
    """As people write it in NumPy: keepdims, a division by the root of the columns."""
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(np.float32(64.0)) + mask
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (powers / powers.sum(axis=-1, keepdims=True)) @ v


@pytest.mark.parametrize("empty_row", [False, True])
def test_attention_in_numpy(empty_row):
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((2, 3, n, 64)).astype(np.float32) for n in (9, 20, 20))
    mask = rng.standard_normal((2, 1, 1, 20)).astype(np.float32)
    if empty_row:
        mask[1] = -np.inf
    fast = zenith.jit(by_hand, backend="lanes")
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(fast(q, k, v, mask), by_hand(q, k, v, mask), rtol=1e-4, atol=1e-5)
    assert "launch attention" in fast.show("plan") and "matmul" not in fast.show("plan")


HEADS = "q: f32[b, s, 48], k: f32[b, t, 2, 8], v: f32[b, t, 2, 8], m: f32[b, t]"
REPEATED = """
    q1 = reshape(q, shape=(b, s, 6, 8))
    q2 = transpose(q1, axes=(0, 2, 1, 3))
    k1 = transpose(k, axes=(0, 2, 1, 3))
    k2 = broadcast(k1, shape=(b, 2, 3, t, 8), axes=(0, 1, 3, 4))
    k3 = reshape(k2, shape=(b, 6, t, 8))
    v1 = transpose(v, axes=(0, 2, 1, 3))
    v2 = broadcast(v1, shape=(b, 2, 3, t, 8), axes=(0, 1, 3, 4))
    v3 = reshape(v2, shape=(b, 6, t, 8))
    m1 = broadcast(m, shape=(b, 6, s, t), axes=(0, 3))
    r, l = attention(q2, k3, v3, m1, scale=1.0, causal=False, mask='add', empty=0.0)
    r1 = transpose(r, axes=(0, 2, 1, 3))
    r2 = reshape(r1, shape=(b, s, 48))
    return (r2,)
"""
APART = """
    k1 = transpose(k, axes=(0, 2, 1, 3))
    k2 = broadcast(k1, shape=(b, 2, 3, t, 8), axes=(0, 1, 3, 4))
    v1 = transpose(v, axes=(0, 2, 1, 3))
    v2 = broadcast(v1, shape=(b, 2, 3, t, 8), axes=(0, 1, 3, 4))
    q1 = reshape(q, shape=(b, s, 2, 3, 8))
    q2 = transpose(q1, axes=(0, 2, 3, 1, 4))
    m1 = broadcast(m, shape=(b, 2, 3, s, t), axes=(0, 4))
    r, l = attention(q2, k2, v2, m1, scale=1.0, causal=False, mask='add', empty=0.0)
    r1 = transpose(r, axes=(0, 3, 1, 2, 4))
    r2 = reshape(r1, shape=(b, s, 48))
    return (r2,)
"""


def test_heads_that_share_keys_are_not_copied():
    result = expect(movement, HEADS, REPEATED, APART)
    assert_same_results(program(HEADS, REPEATED), result, {"b": 2, "s": 5, "t": 4})
    fused, _ = run(program(HEADS, REPEATED))
    assert [n.params["anchor"] for _, n in fused.nodes() if n.primitive.name == "fused"] == ["attention"]


def test_arithmetic_after_attention_reads_it_in_the_order_that_is_stored():
    """Rows in bytes, and their sums, as quantised products need them: one kernel, and no transposed copies."""
    signature = "q: f32[b, 2, s, 8], k: f32[b, 2, s, 8], v: f32[b, 2, s, 8]"
    body = """
    r, l = attention(q, k, v, scale=1.0, causal=False, mask='none', empty=0.0)
    r1 = transpose(r, axes=(0, 2, 1, 3))
    r2 = reshape(r1, shape=(b, s, 16))
    x = round(r2)
    x1 = cast(x, dtype=u8)
    x2 = cast(x1, dtype=i32)
    y = reduce_sum(x2, axes=(2,))
    return (x1, y)
    """
    before = program(signature, body)
    assert_same_results(before, movement(before), {"b": 2, "s": 5})
    fused, _ = run(before)
    assert [n.params["anchor"] for _, n in fused.nodes() if n.primitive.name == "fused"] == ["attention", "rows"]


def test_the_function_groups_heads():
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, h, n, 4)) for h, n in ((6, 5), (2, 7), (2, 7)))
    repeated = znp.attention(q, np.repeat(k, 3, axis=1), np.repeat(v, 3, axis=1), scale=0.5)
    np.testing.assert_allclose(znp.attention(q, k, v, scale=0.5), repeated, rtol=1e-12)
    fast = zenith.jit(lambda q, k, v: znp.attention(q, k, v, scale=0.5), backend="reference")
    np.testing.assert_allclose(fast(q, k, v), repeated, rtol=1e-12)
