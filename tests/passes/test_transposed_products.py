"""Transposes of products become those of their operands only where that saves one."""

import pytest

from tests.passes.compare import expect
from zenith.passes.transposed_products import transposed_products

BEFORE = """v2 = transpose(x, axes=(1, 0))
v3 = matmul(v2, y)
v4 = transpose(v3, axes=(1, 0))
v5 = exp(v4)
return (v5,)"""


def test_a_gradient_of_a_transposed_weight_is_not_transposed():
    after = """v2 = transpose(x, axes=(1, 0))
v3 = transpose(y, axes=(1, 0))
v4 = transpose(v2, axes=(1, 0))
v5 = matmul(v3, v4)
v6 = exp(v5)
return (v6,)"""
    expect(transposed_products, "x: f32[n, 3], y: f32[n, 4]", BEFORE, after)


@pytest.mark.parametrize(
    "before",
    [
        BEFORE.replace("return (v5,)", "return (v5, v3)"),
        "v2 = matmul(x, y)\nv3 = transpose(v2, axes=(1, 0))\nreturn (v3,)",
    ],
    ids=["read otherwise", "nothing saved"],
)
def test_other_products_stay(before):
    inputs = "x: f32[n, 3], y: f32[n, 4]" if "v5" in before else "x: f32[3, n], y: f32[n, 4]"
    expect(transposed_products, inputs, before, before)
