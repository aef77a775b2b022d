"""Reshapes of slices: what is in memory is reshaped, where sizes divide evenly."""

import pytest

from tests.passes.compare import assert_same_results, expect, program
from zenith.passes.slices_of_views import slices_of_views

INPUTS = "x: f32[n, 24], q: f32[b, s, 24]"
SIZES = {"n": 6, "b": 2, "s": 3}

CHANGED = {
    "heads of a slice": (
        "v = slice(x, start=(0, 8), stop=(n, 16), step=(1, 1))\nw1 = reshape(v, shape=(n, 2, 4))\nreturn (w1,)",
        "v = reshape(x, shape=(n, 6, 4))\nw1 = slice(v, start=(0, 2, 0), stop=(n, 4, 4), step=(1, 1, 1))\nreturn (w1,)",
    ),
    "rows joined, and a unit axis": (
        "v = slice(q, start=(0, 0, 8), stop=(b, s, 12), step=(1, 1, 1))\nw1 = reshape(v, shape=(b*s, 1, 4))\n"
        "return (w1,)",
        "v = reshape(q, shape=(b*s, 1, 24))\nw1 = slice(v, start=(0, 0, 8), stop=(b*s, 1, 12), step=(1, 1, 1))\n"
        "return (w1,)",
    ),
}

STAYING = {
    "slices that do not divide evenly": "v = slice(x, start=(0, 1), stop=(n, 9), step=(1, 1))\n"
    "w1 = reshape(v, shape=(n, 2, 4))\nreturn (w1,)",
    "every other element": "v = slice(x, start=(0, 0), stop=(n, 24), step=(1, 2))\n"
    "w1 = reshape(v, shape=(n, 3, 4))\nreturn (w1,)",
    "a sliced axis joined with another": "v = slice(q, start=(0, 1, 0), stop=(b, s, 24), step=(1, 1, 1))\n"
    "w1 = reshape(v, shape=(b*s - b, 24))\nreturn (w1,)",
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_reshape_in_front(case):
    before, after = CHANGED[case]
    result = expect(slices_of_views, INPUTS, before, after)
    assert_same_results(program(INPUTS, before), result, SIZES)


@pytest.mark.parametrize("case", STAYING)
def test_what_needs_a_copy_stays(case):
    expect(slices_of_views, INPUTS, STAYING[case], STAYING[case])
