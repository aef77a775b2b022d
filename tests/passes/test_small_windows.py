"""Reductions of small windows become operations of slices; large ones, and what has other windows in it, stay."""

import numpy as np
import pytest

from tests.passes.compare import expect, program, random_arguments
from zenith.ir.interpret import interpret
from zenith.passes.dce import dce
from zenith.passes.small_windows import MAX_TERMS, small_windows


def test_a_window_of_two_is_a_sum_of_slices():
    expect(
        small_windows, "x: f32[n, 20]",
        "v1 = windows(x, window=(1, 2), stride=(3, 4), dilation=(1, 2))\nv2 = exp(v1)\n"
        "v3 = reduce_sum(v2, axes=(2, 3))\nreturn (v3,)",
        "v1 = slice(x, start=(0, 0), stop=(3*((n - 1)//3) + 1, 17), step=(3, 4))\nv2 = exp(v1)\n"
        "v3 = slice(x, start=(0, 2), stop=(3*((n - 1)//3) + 1, 19), step=(3, 4))\nv4 = exp(v3)\n"
        "v5 = add(v2, v4)\nreturn (v5,)",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"])
def test_values_stay(name):
    before = program("x: f64[b, n, m], y: f64[b, ((n - 3)//2) + 1, m]", f"""
        v1 = windows(x, window=(3, 1), stride=(2, 1), dilation=(1, 1))
        v2 = broadcast(y, shape=(b, ((n - 3)//2) + 1, m, 3, 1), axes=(0, 1, 2))
        v3 = mul(v1, v2)
        v4 = {name}(v3, axes=(3, 4))
        return (v4,)""")  # fmt: skip
    after = dce(small_windows(before))
    assert "windows" not in {node.primitive.name for _, node in after.nodes()}
    arguments = random_arguments(before, {"b": 2, "n": 8, "m": 3})
    np.testing.assert_allclose(interpret(after, *arguments)[0], interpret(before, *arguments)[0], rtol=1e-14)


@pytest.mark.parametrize(
    ("line", "axes"),
    [
        ("windows(x, window=(2, 2), stride=(n, 1), dilation=(1, 1))", (2, 3)),
        (f"windows(x, window=({MAX_TERMS + 1}, 1), stride=(1, 1), dilation=(1, 1))", (2, 3)),
        ("windows(x, window=(m, 2), stride=(1, 1), dilation=(1, 1))", (2, 3)),
        ("windows(x, window=(2,), stride=(1,), dilation=(1,))", (1, 2)),
        ("windows(x, window=(2, 2), stride=(1, 1), dilation=(1, 1))", (1,)),
    ],
)
def test_other_reductions_stay(line, axes):
    body = f"v1 = {line}\nv2 = reduce_sum(v1, axes={axes if len(axes) > 1 else '(1,)'})\nreturn (v2,)"
    expect(small_windows, "x: f32[n, 50], y: f32[m]", body, body)


@pytest.mark.parametrize("first", ["windows(x, window=(3,), stride=(1,), dilation=(1,))", "exp(x)"])
def test_what_many_paths_lead_to_is_visited_once(first):
    """Each of these products reads the one before it twice, so that 2**60 paths lead to the first value."""
    last = 62
    body = [f"v1 = {first}", *(f"v{i} = mul(v{i - 1}, v{i - 1})" for i in range(2, last))]
    axis = 0 if first == "exp(x)" else 1
    graph = program(
        "x: f64[3]", "\n".join([*body, f"v{last} = reduce_sum(v{last - 1}, axes=({axis},))", f"return (v{last},)"])
    )
    after = small_windows(graph)
    written_out = "reduce_sum" not in {node.primitive.name for _, node in after.nodes()}
    assert written_out == (first != "exp(x)") and len(after) < 1000
    np.testing.assert_array_equal(interpret(after, np.array([1.0, -1.0, 1.0]) * axis)[0], [3.0])
