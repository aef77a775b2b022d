"""Mixed reductions become two; pure ones stay."""

import pytest

from tests.passes.compare import assert_same_results, expect, program
from zenith.ir.lowering import Fold
from zenith.ir.primitive import all_primitives
from zenith.passes.split_reductions import split_reductions

REDUCTIONS = [p.name for p in all_primitives() if isinstance(p.lowering, Fold)]
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_mixed_reduction_does_the_trailing_axes_first(name):
    signature = f"x: {'i32' if name.endswith(('and', 'or')) else 'f32'}[a, b, c, d]"
    before = f"v1 = {name}(x, axes=(0, 2, 3))\nreturn (v1,)"
    after = f"v1 = {name}(x, axes=(2, 3))\nv2 = {name}(v1, axes=(0,))\nreturn (v2,)"
    result = expect(split_reductions, signature, before, after)
    assert_same_results(program(signature, before), result, SIZES)


@pytest.mark.parametrize("axes", ["(0,)", "(1, 2)", "(3,)", "(2, 3)", "(0, 1, 2, 3)", "()"])
def test_pure_reductions_stay(axes):
    body = f"v1 = reduce_sum(x, axes={axes})\nreturn (v1,)"
    expect(split_reductions, "x: f32[a, b, c, d]", body, body)


def test_every_reduction_is_pure_afterwards():
    for mask in range(16):
        axes = tuple(a for a in range(4) if mask >> a & 1)
        result = split_reductions(program("x: f32[a, b, c, d]", f"v1 = reduce_sum(x, axes={axes})\nreturn (v1,)"))
        for number, node in result.nodes():
            if isinstance(node.primitive.lowering, Fold):
                rank = len(result.args(number)[0].shape)
                count = len(node.params["axes"])
                trailing = tuple(range(rank - count, rank))
                assert node.params["axes"] == trailing or rank - 1 not in node.params["axes"]
