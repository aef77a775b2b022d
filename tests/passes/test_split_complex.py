"""Complex values become real arrays, which have real and imaginary parts; only inputs and outputs stay complex."""

import numpy as np

from tests.passes.compare import expect, program
from zenith.ir.interpret import interpret
from zenith.ir.types import ArrayType
from zenith.ir.verify import verify
from zenith.passes.dce import dce
from zenith.passes.expand import expand
from zenith.passes.split_complex import split_complex


def split(graph):
    return split_complex(expand(graph))


def complex_values(graph):
    """The primitives that give complex arrays, in graphs and their bodies."""
    return {
        node.primitive.name for node in dce(split(graph)).walk()
        for type in node.types if isinstance(type, ArrayType) and type.dtype.is_complex
    }  # fmt: skip


def test_a_product():
    expect(
        split, "x: c64[n], y: c64[n]", "v1 = mul(x, y)\nreturn (v1,)",
        """v1 = as_parts(x)
        v2 = part(v1, which=0)
        v3 = part(v1, which=1)
        v4 = as_parts(y)
        v5 = part(v4, which=0)
        v6 = part(v4, which=1)
        v7 = mul(v2, v5)
        v8 = mul(v3, v6)
        v9 = sub(v7, v8)
        v10 = mul(v2, v6)
        v11 = mul(v3, v5)
        v12 = add(v10, v11)
        v13 = interleave(v9, v12)
        v14 = of_parts(v13)
        return (v14,)""",
    )  # fmt: skip


def test_parts_that_were_put_together_are_those_parts():
    before = "v1 = complex(x, y)\nv2 = conj(v1)\nv3 = real(v2)\nv4 = imag(v2)\nreturn (v3, v4)"
    expect(split, "x: f64[n], y: f64[n]", before, "v1 = neg(y)\nreturn (x, v1)")


def test_what_is_in_memory_stays_there():
    before = "v1 = real(x)\nv2 = imag(x)\nv3 = complex(v1, v2)\nv4 = reshape(v3, shape=(2, n))\nreturn (v3, v4)"
    graph = program("x: c128[2*n]", before)
    names = [node.primitive.name for _, node in dce(split(graph)).nodes()]
    assert names == ["input", "reshape"]


def test_only_the_edges_are_complex():
    graph = program(
        "x: c64[n, 3], i: i64[k]",
        """v1 = literal(value=complex(0.5, -0.0), dtype=c64)
        v2 = broadcast(v1, shape=(n, 3), axes=())
        v3 = add(x, v2)
        v4 = take(v3, i, axis=0)
        v5 = transpose(v4, axes=(1, 0))
        v6 = reduce_sum(v5, axes=(0,))
        v7 = sqrt(v6)
        v8 = cast(v7, dtype=c128)
        return (v8,)""",
    )
    assert complex_values(graph) == {"input", "of_parts"}
    x = (np.arange(12).reshape(4, 3) * (1 - 2j)).astype(np.complex64)
    indices = np.array([3, 0])
    result = verify(split(graph))
    np.testing.assert_allclose(interpret(result, x, indices)[0], interpret(graph, x, indices)[0], rtol=1e-6)


def test_a_graph_without_complex_numbers_is_left_alone():
    graph = program("x: f32[n]", "v1 = exp(x)\nreturn (v1,)")
    assert split_complex(graph) is graph


def test_a_matrix_product_is_one_real_product():
    graph = program("x: c64[n, m], y: c64[m, k]", "v1 = matmul(x, y)\nreturn (v1,)")
    products = [n for _, n in dce(split(graph)).nodes() if n.primitive.name == "matmul"]
    assert [str(n.types[0]) for n in products] == ["f32[n, 2*k]"]
