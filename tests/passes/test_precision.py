"""16-bit floats are widened for arithmetic and rounded where more than one arithmetic operation can see a value."""

import ml_dtypes
import numpy as np
import pytest

import zenith
from tests.backends.running import call, compiled
from tests.passes.compare import expect
from zenith.ir.text import parse
from zenith.ir.verify import verify
from zenith.passes import grouping
from zenith.passes.pipeline import run
from zenith.passes.precision import precision
from zenith.passes.widenings import widenings

CASES = {
    "read once": (
        "v1 = mul(x, y)\nv2 = add(v1, y)\nreturn (v2,)",
        "v1 = cast(x, dtype=f32)\nv2 = cast(y, dtype=f32)\nv3 = mul(v1, v2)\nv4 = cast(y, dtype=f32)\n"
        "v5 = add(v3, v4)\nv6 = cast(v5, dtype=bf16)\nreturn (v6,)",
    ),
    "read twice": (
        "v1 = exp(x)\nv2 = mul(v1, v1)\nreturn (v2,)",
        "v1 = cast(x, dtype=f32)\nv2 = exp(v1)\nv3 = cast(v2, dtype=bf16)\nv4 = cast(v3, dtype=f32)\n"
        "v5 = cast(v3, dtype=f32)\nv6 = mul(v4, v5)\nv7 = cast(v6, dtype=bf16)\nreturn (v7,)",
    ),
    "returned, too": (
        "v1 = exp(x)\nv2 = neg(v1)\nreturn (v1, v2)",
        "v1 = cast(x, dtype=f32)\nv2 = exp(v1)\nv3 = cast(v2, dtype=bf16)\nv4 = cast(v3, dtype=f32)\n"
        "v5 = neg(v4)\nv6 = cast(v5, dtype=bf16)\nreturn (v3, v6)",
    ),
    "compared": (
        "v1 = exp(x)\nv2 = lt(v1, y)\nreturn (v2,)",
        "v1 = cast(x, dtype=f32)\nv2 = exp(v1)\nv3 = cast(v2, dtype=bf16)\nv4 = cast(v3, dtype=f32)\n"
        "v5 = cast(y, dtype=f32)\nv6 = lt(v4, v5)\nreturn (v6,)",
    ),
    "made whole": (
        "v1 = exp(x)\nv2 = floor(v1)\nreturn (v2,)",
        "v1 = cast(x, dtype=f32)\nv2 = exp(v1)\nv3 = cast(v2, dtype=bf16)\nv4 = cast(v3, dtype=f32)\n"
        "v5 = floor(v4)\nv6 = cast(v5, dtype=bf16)\nreturn (v6,)",
    ),
    "cast": (
        "v1 = exp(x)\nv2 = cast(v1, dtype=f64)\nreturn (v2,)",
        "v1 = cast(x, dtype=f32)\nv2 = exp(v1)\nv3 = cast(v2, dtype=bf16)\nv4 = cast(v3, dtype=f64)\nreturn (v4,)",
    ),
    "moved": (
        "v1 = exp(x)\nv2 = reverse(v1, axes=(0,))\nreturn (v2,)",
        "v1 = cast(x, dtype=f32)\nv2 = exp(v1)\nv3 = cast(v2, dtype=bf16)\nv4 = reverse(v3, axes=(0,))\nreturn (v4,)",
    ),
    "summed": (
        "v1 = mul(x, y)\nv2 = reduce_sum(v1, axes=(0,))\nreturn (v2,)",
        "v1 = cast(x, dtype=f32)\nv2 = cast(y, dtype=f32)\nv3 = mul(v1, v2)\nv4 = reduce_sum(v3, axes=(0,))\n"
        "v5 = cast(v4, dtype=bf16)\nreturn (v5,)",
    ),
    "a number": (
        "v1 = literal(value=0.5, dtype=bf16)\nv2 = broadcast(v1, shape=(n,), axes=())\nv3 = add(x, v2)\nreturn (v3,)",
        "v1 = literal(value=0.5, dtype=bf16)\nv2 = broadcast(v1, shape=(n,), axes=())\nv3 = cast(x, dtype=f32)\n"
        "v4 = literal(value=0.5, dtype=f32)\nv5 = broadcast(v4, shape=(n,), axes=())\nv6 = add(v3, v5)\n"
        "v7 = cast(v6, dtype=bf16)\nreturn (v7,)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_where_values_are_rounded(case):
    expect(precision, "x: bf16[n], y: bf16[n]", *case)


def test_what_is_written_twice_has_two_readers():
    text = "v1 = mul(x, y)\nv2 = add(v1, x)\nv3 = mul(y, x)\nv4 = add(v3, y)\nreturn (v2, v4)"
    graph = precision(_parsed("x: bf16[n], y: bf16[n]", text))
    products = [number for number, node in graph.nodes() if node.primitive.name == "mul"]
    assert len(products) == 1 and [u for _, u, _ in graph.users(products[0])] == [products[0] + 1]
    assert graph.node(products[0] + 1).primitive.name == "cast"


def test_movements_move_16_bits():
    expect(
        widenings, "x: bf16[n, 3]",
        "v1 = cast(x, dtype=f32)\nv2 = transpose(v1, axes=(1, 0))\nv3 = reverse(v2, axes=(0,))\nreturn (v3,)",
        "v1 = cast(x, dtype=f32)\nv2 = transpose(x, axes=(1, 0))\nv3 = cast(v2, dtype=f32)\n"
        "v4 = reverse(v2, axes=(0,))\nv5 = cast(v4, dtype=f32)\nreturn (v5,)",
    )  # fmt: skip


def test_kernels_read_16_bits():
    """A value that several kernels read is in memory once, and never in float32."""
    text = ("v1 = exp(x)\nv2 = reduce_max(v1, axes=(1,))\nv3 = reduce_sum(v1, axes=(0,))\n"
            "v4 = transpose(v1, axes=(1, 0))\nv5 = tanh(v4)\nreturn (v2, v3, v5)")  # fmt: skip
    graph, _ = run(_parsed("x: bf16[n, 3]", text))
    groups = [node for _, node in graph.nodes() if node.primitive.name == "fused"]
    assert len(groups) >= 2
    read = [v for node in groups for v in node.params["body"].inputs if len(v.shape) > 1]
    assert len(read) >= 2 and {v.dtype.name for v in read} == {"bf16"}


def _parsed(inputs, lines):
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    returned = lines.rsplit("return (", 1)[1].split(")")[0].rstrip(",").split(", ")
    types = {2: "bf16[n], bf16[n]", 3: "bf16[n], bf16[3], bf16[3, n]"}[len(returned)]
    return verify(parse(f"def f({inputs}) -> ({types}):\n{body}"))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_maximum_is_attained(dtype):
    """Whoever looks at a value sees the same number, in whichever kernel."""

    def attained(x, y):
        product = x * y
        return np.max(product, axis=1, keepdims=True) == product, np.tanh(product.T), np.argmax(product, axis=1)

    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((40, 50)).astype(dtype) for _ in range(2))
    hit, _, index = zenith.jit(attained)(x, y)
    assert hit.any(axis=1).all() and hit[np.arange(40), index].all()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_fusion_does_not_decide_what_is_rounded(dtype, monkeypatch):
    """A kernel for each operation gives the same bits as one for all. (NumPy's lanes contract no products and sums.)"""
    text = f"""def f(x: {dtype}[n, m], y: {dtype}[n, m]) -> ({dtype}[n, m], {dtype}[n, m], {dtype}[n]):
    v2 = mul(x, y)
    v3 = reduce_max(x, axes=(1,))
    v4 = broadcast(v3, shape=(n, m), axes=(0,))
    v5 = sub(v2, v4)
    v6 = exp(v5)
    v7 = mul(v6, x)
    v8 = reduce_sum(v6, axes=(1,))
    return (v5, v7, v8)"""
    rng, graph = np.random.default_rng(1), verify(parse(text))
    args = [rng.standard_normal((33, 65)).astype(v.dtype.numpy) for v in graph.inputs]
    together = call(compiled(graph, "lanes"), graph, args)
    monkeypatch.setattr(grouping, "MAX_MEMBERS", 1)
    alone = compiled(graph, "lanes")
    assert len(alone.sources) > 4
    for one, other in zip(together, call(alone, graph, args), strict=True):
        np.testing.assert_array_equal(one.view(np.int16), other.view(np.int16))


@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_sums_accumulate_in_float32(backend):
    graph = verify(parse("def f(x: f16[n]) -> (f16):\n    v1 = reduce_sum(x, axes=(0,))\n    return (v1,)"))
    ones = np.ones(30_001, np.float16)
    assert call(compiled(graph, backend), graph, [ones])[0] == np.float16(30_001)
