"""Borders of the last axis but one become borders of both; others, and of what has no memory of its own, stay."""

import pytest

from tests.passes.compare import assert_same_results, expect, program
from zenith.passes.joined_borders import joined_borders

PAD = "v{v} = pad({x}, {value}, low=(1, {low}, 0), high=(0, {high}, {last}), interior=(0, {interior}, 0))"


def body(low=2, high=1, last=0, interior=0, value=1, x="x", before=""):
    pad = PAD.format(v=value + 1, x=x, value=f"v{value}", low=low, high=high, last=last, interior=interior)
    return f"{before}v{value} = literal(value=3.0, dtype=f32)\n{pad}\nreturn (v{value + 1},)"


def test_a_border_of_positions():
    after = ("v1 = literal(value=3.0, dtype=f32)\nv2 = reshape(x, shape=(a, 4*b))\n"
             "v3 = pad(v2, v1, low=(1, 8), high=(0, 4), interior=(0, 0))\nv4 = reshape(v3, shape=(a + 1, b + 3, 4))\n"
             "return (v4,)")  # fmt: skip
    found = expect(joined_borders, "x: f32[a, b, 4]", body(), after)
    for b in (0, 1, 5):
        assert_same_results(program("x: f32[a, b, 4]", body()), found, {"a": 2, "b": b})


@pytest.mark.parametrize("given", [
    {"low": 0, "high": 0}, {"last": 1}, {"interior": 1},
    {"before": "v1 = transpose(x, axes=(0, 1, 2))\n", "x": "v1", "value": 2},
])  # fmt: skip
def test_others_stay(given):
    expect(joined_borders, "x: f32[a, b, 4]", body(**given), body(**given))


def test_a_border_that_a_convolution_writes_stays():
    computed = ("v1 = conv_blocks(x, k, window=(2,), strides=(1,), dilation=(1,), block=3)\n"
                "v2 = literal(value=3.0, dtype=f32)\n"
                "v3 = pad(v1, v2, low=(0, 0, 0, 1, 0), high=(0, 0, 0, 0, 0), interior=(0, 0, 0, 0, 0))\n"
                "return (v3,)")  # fmt: skip
    expect(joined_borders, "x: f32[a, 1, 2, b, 4], k: f32[1, 16, 6]", computed, computed)
