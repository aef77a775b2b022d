"""Reductions over small windows become chains; others stay."""

import pytest

from tests.passes.compare import assert_same_results, expect, program
from zenith.passes.shifted_windows import LARGEST, shifted_windows

WINDOWS = "v1 = windows(x, window=({k},), stride=({s},), dilation=(2,))\nv2 = {reduce}(v1, axes=({axes}))\nreturn (v2,)"
CHAIN = """v1 = slice(x, start=(0, 0), stop=(m, 3*((n - 3)//3) + 1), step=(1, 3))
v2 = slice(x, start=(0, 2), stop=(m, 3*((n - 3)//3) + 3), step=(1, 3))
v3 = {join}(v1, v2)
return (v3,)"""


@pytest.mark.parametrize(
    ("reduce", "join"), [("reduce_sum", "add"), ("reduce_max", "maximum"), ("reduce_min", "minimum")]
)
def test_small_windows(reduce, join):
    before = WINDOWS.format(k=2, s=3, reduce=reduce, axes="2,")
    found = expect(shifted_windows, "x: f32[m, n]", before, CHAIN.format(join=join))
    for n in (3, 5, 6, 11):
        assert_same_results(program("x: f32[m, n]", before), found, {"m": 2, "n": n})


@pytest.mark.parametrize("given", [
    {"reduce": "reduce_prod", "k": 2, "s": 1, "axes": "2,"}, {"reduce": "reduce_sum", "k": 2, "s": 1, "axes": "1, 2"},
    {"reduce": "reduce_max", "k": LARGEST + 1, "s": 1, "axes": "2,"}, {"reduce": "reduce_max", "k": "m", "s": 1, "axes": "2,"},
    {"reduce": "reduce_max", "k": 2, "s": "m", "axes": "2,"},
])  # fmt: skip
def test_others_stay(given):
    expect(shifted_windows, "x: f32[m, n]", WINDOWS.format(**given), WINDOWS.format(**given))
