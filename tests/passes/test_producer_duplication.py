"""Sums of columns that share their terms, and whether each computes its own."""

import numpy as np
import pytest

import zenith
from tests.passes.compare import assert_same_results, program
from zenith import nn
from zenith.passes.producer_duplication import producer_duplication

MOMENTS = """v1 = broadcast(m, shape=(a, b), axes=(1,))
v2 = sub(x, v1)
v3 = mul(v2, v2)
v4 = reduce_sum(v2, axes=({axis},))
v5 = reduce_sum(v3, axes=({axis},))
return ({results})"""
SIGNATURE = "x: f32[a, b], m: f32[b]"


def count(text, name):
    return text.count(f" = {name}(")


def test_each_sum_computes_its_terms():
    graph = program(SIGNATURE, MOMENTS.format(axis=0, results="v4, v5"))
    result = producer_duplication(graph)
    assert (count(str(result), "sub"), count(str(result), "mul")) == (2, 1)
    assert_same_results(graph, result, {"a": 5, "b": 3})


UNCHANGED = {
    "rows": (SIGNATURE, MOMENTS.format(axis=1, results="v4, v5")),
    "returned": (SIGNATURE, MOMENTS.format(axis=0, results="v2, v3, v4, v5")),
    "a decision": (SIGNATURE, "v1 = floor(x)\nv2 = exp(v1)\nv3 = reduce_sum(v2, axes=(0,))\n"
                   "v4 = mul(v2, v2)\nv5 = reduce_sum(v4, axes=(0,))\nreturn (v3, v5)"),
    "much to read": ("x: f32[a, b], y: f32[a, b], z: f32[a, b]", "v1 = mul(x, y)\nv2 = mul(v1, z)\nv3 = sub(v1, z)\n"
                     "v4 = reduce_sum(v2, axes=(0,))\nv5 = reduce_sum(v3, axes=(0,))\nreturn (v4, v5)"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_stays(name):
    graph = program(*UNCHANGED[name])
    assert str(producer_duplication(graph)) == str(graph)


def test_normalisation_of_a_batch_stores_no_distances():
    f = zenith.jit(lambda x: nn.batch_norm_training(nn.conv(x, np.ones((16, 2, 1, 1), np.float32)))[0])
    x = np.random.default_rng(0).standard_normal((4, 2, 5, 6)).astype(np.float32)
    mean = (double := x.astype(np.float64).sum(1)).mean()
    expected = (double - mean) / np.sqrt(double.var() + 1e-5)
    np.testing.assert_allclose(f(x)[:, 3], expected, atol=2e-6)
    text = f.lower(x).compile().as_text("optimized")
    whole = [line for line in text.splitlines() if "= fused(" in line and "anchor='loops'" in line and "x2, x3" in line]
    assert len(whole) <= 2, whole  # the image's blocks, and what is returned
