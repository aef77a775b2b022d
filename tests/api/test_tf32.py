"""The option tf32: who has it, what it changes on a GPU's plan, and that the CPU computes as without it."""

import numpy as np
import pytest
import torch

import zenith
from zenith.backends.cuda.compile import available

X, W = np.random.default_rng(0).standard_normal((2, 24, 24), dtype=np.float32)
SPEC = zenith.ShapeDtypeStruct((24, 24), "float32")


def product(x, w):
    return x @ w


def engine(tf32):
    """Who computes a product of float32 on a GPU."""
    lowered = zenith.jit(product, backend="cuda", tf32=tf32).lower(SPEC, SPEC)
    (group,) = lowered._plan().groups
    return group.choice


def test_float32_products_reach_tensor_cores_where_that_is_allowed():
    assert engine(True).engine == "tensor_cores"
    choice = engine(False)
    assert choice.engine == "product" and "compile with tf32=True" in dict(choice.others)["tensor_cores"]


def test_the_cpu_computes_the_same_bits_with_it():
    np.testing.assert_array_equal(zenith.jit(product, tf32=True)(X, W), zenith.jit(product)(X, W))


def test_explain_says_whether_it_is_allowed():
    allowed, plain = zenith.jit(product, tf32=True), zenith.jit(product)
    allowed(X, W), plain(X, W)
    assert "operands of float32 products may be rounded to TF32" in str(allowed.explain())
    assert "TF32" not in str(plain.explain()).replace("tf32=True", "")


def test_methods_and_decorators_keep_it():
    class Layer:
        @zenith.jit(tf32=True)
        def apply(self, x):
            return x @ W

    assert Layer().apply.numerics.tf32 and Layer().apply(X).shape == (24, 24)


@pytest.mark.thorough
@pytest.mark.skipif(not available(), reason="the CUDA compiler is not installed")
def test_ahead_of_time_and_for_modules():
    for tf32 in (False, True):
        ready = zenith.aot(product, (SPEC, SPEC), tf32=tf32)
        assert any("mma.sync.aligned.m16n8k8.row.col.f32.tf32" in ptx for ptx in ready.ptx.values()) == tf32
    layer = torch.nn.Linear(3, 2)
    compiled = zenith.from_torch(layer, (torch.zeros(4, 3),), tf32=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(torch.ones(4, 3)), layer(torch.ones(4, 3)))
    assert compiled.numerics.tf32
