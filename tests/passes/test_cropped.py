"""Rows and columns that are cut off of a convolution are not computed where they result from padded zeros."""

import numpy as np
import pytest

import zenith
from tests.passes.compare import expect
from zenith import nn
from zenith.passes.cropped import cropped

PADDED = """v1 = literal(value={value}, dtype=f32)
v2 = pad(x, v1, low=(0, 0, {low}), high=(0, 0, {high}), interior=(0, 0, {interior}))
v3 = conv(v2, w, strides=({stride},), dilation=(1,), groups=1)
"""
GIVEN = {"value": 0.0, "low": 2, "high": 3, "interior": 0, "stride": 1}
INPUTS = "x: f32[n, 4, m], w: f32[6, 4, 3]"


def cut(start, stop, step=1):
    return f"v4 = slice(v3, start=(0, 0, {start}), stop=(n, 6, {stop}), step=(1, 1, {step}))\nreturn (v4,)"


def test_zeros_are_left_out():
    before = PADDED.format(**GIVEN) + cut(1, "m + 1")
    expect(cropped, INPUTS, before, PADDED.format(**{**GIVEN, "low": 1, "high": 1}) + "return (v3,)")


@pytest.mark.parametrize("before", [
    pytest.param(PADDED.format(**GIVEN) + cut(3, "m + 3"), id="elements"),
    pytest.param(PADDED.format(**{**GIVEN, "value": 1.0}) + cut(1, "m + 1"), id="ones"),
    pytest.param(PADDED.format(**{**GIVEN, "stride": 2, "low": 0, "high": 0, "interior": 1}) + cut(1, "m - 1"),
                 id="strides"),
    pytest.param(PADDED.format(**GIVEN) + cut(1, "m + 1", step=2), id="steps"),
    pytest.param(PADDED.format(**GIVEN) + cut(1, "m + 1").replace("return (v4,)", "return (v4, v3)"), id="needed"),
])  # fmt: skip
def test_others_stay(before):
    expect(cropped, INPUTS, before, before)


def test_the_gradient_of_a_convolution_has_no_border():
    x, w = np.ones((2, 3, 9, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)
    gradient = zenith.jit(zenith.grad(lambda x, w: nn.conv(x, w, padding=1).sum()))
    text = gradient.lower(x, w).compile().as_text("optimized")
    (line,) = [line for line in text.splitlines() if "conv_blocks(" in line]
    assert "f32[x0, 1, 1, x2, x3, 3]" in line
