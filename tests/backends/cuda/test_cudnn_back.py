"""The backward pass of attention by cuDNN: gradients of programs, by their values, and refusals."""

import ml_dtypes
import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_cudnn import fake_cudnn
from tests.backends.cuda.library_checks import reasons, refusals
from zenith.backends.cuda import libraries
from zenith.config import config

BF16 = ml_dtypes.bfloat16


@pytest.fixture
def dnn(gpu, monkeypatch):
    """The library, which computes every attention that it supports."""
    monkeypatch.setattr(config, "engines", ("cudnn", "cudnn_vjp"))
    with fake_cudnn(gpu) as found:
        yield found


def random(shape, dtype=BF16, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def loss_of(**options):
    """Attention and a product of its result, as in a layer: its cotangent is a kernel's own result."""

    def loss(q, k, v, w):
        averages = znp.attention(q, k, v, **options)
        return np.sum((averages @ w).astype(np.float32))

    return loss


def run(function, *arrays, **options):
    jitted = zenith.jit(function, **options)
    found = jitted(*map(on_device, arrays))
    zenith.synchronize()
    return jitted, [on_host(x) for x in found]


def near(found, want, bound):
    np.testing.assert_allclose(found.astype(np.float64), want, bound, bound * np.abs(want).max())


def operands(dtype=BF16, lead=(2, 3), queries=5, keys=7, size=16, columns=24):
    shapes = (queries, size), (keys, size), (keys, columns)
    return [*(random((*lead, *s), dtype, i) for i, s in enumerate(shapes)), random((columns, 8), dtype, 4)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [BF16, np.float16], ids=["bf16", "f16"])
@pytest.mark.parametrize("lead", [(2, 3), (4,)], ids=str)
def test_gradients(dnn, dtype, causal, lead):
    """Queries, keys and values; the averages of the forward pass are read, and delta is not computed."""
    arrays = operands(dtype, lead)
    gradient = zenith.grad(loss_of(causal=causal), argnums=(0, 1, 2))
    jitted, found = run(gradient, *arrays)
    backward = [e.operation for e in dnn.executed if hasattr(e.operation, "made")]
    assert len(dnn.executed) == 2 and len(backward) == 1 and backward[0].causal == causal, refusals(jitted)
    wide = gradient(*(a.astype(np.float64) for a in arrays))
    for x, want in zip(found, wide, strict=True):
        near(x, want, 4e-2 if dtype == BF16 else 5e-3)
    assert "cudnn.sdpa_backward [" in jitted.show("plan")


def test_heads_stay_where_a_layer_has_them(dnn):
    """Views [batch, sequence, heads, size]: read and written with their strides."""

    def loss(x, w):
        b, s = x.shape[:2]
        y = x @ w
        q, k, v = (
            np.transpose(np.reshape(y[:, :, 32 * i : 32 * i + 32], (b, s, 2, 16)), (0, 2, 1, 3)) for i in range(3)
        )
        found = np.reshape(np.transpose(znp.attention(q, k, v), (0, 2, 1, 3)), (b, s, 32))
        return np.sum((found @ w[:32, :8]).astype(np.float32))

    x, w = random((2, 5, 32)) / 4, random((32, 96), seed=1) / 4
    gradient = zenith.grad(loss, argnums=(0, 1))
    _, found = run(gradient, x, w)
    (backward,) = [e.operation for e in dnn.executed if hasattr(e.operation, "made")]
    assert backward.made[0].stride == [160, 16, 32, 1], "the cotangent of queries, head by head in a row"
    for array, want in zip(found, gradient(x.astype(np.float64), w.astype(np.float64)), strict=True):
        near(array, want, 5e-2)


@pytest.mark.parametrize("repeatable", [True, False])
def test_bits_repeat_unless_the_user_allows_other_orders(dnn, repeatable):
    run(zenith.grad(loss_of(), argnums=(0, 1, 2)), *operands(), repeatable=repeatable)
    (backward,) = [e.operation for e in dnn.executed if hasattr(e.operation, "made")]
    assert backward.repeatable == repeatable


def shares(q, k, v, w):
    """Heads of queries that share their keys and values."""
    same = [np.broadcast_to(x[:, :1], (2, 3, 7, x.shape[-1])) for x in (k, v)]
    return loss_of()(q, *same, w)


REFUSED = {
    "not all of its three results are wanted, once each": (loss_of(), (0, 1), operands()),
    "it has a mask, of which a query may see nothing": (
        lambda q, k, v, w: loss_of(mask=np.ones((5, 7), bool))(q, k, v, w), (0, 1, 2), operands()),
    "its operands are no floats of 16 bits": (loss_of(), (0, 1, 2), operands(np.float32)),
    "sizes of queries and values are no multiples of 8 up to 256": (loss_of(), (0, 1, 2), operands(size=12)),
    "attention's result is not read in its group: the sums of its changes are made elsewhere": (
        lambda q, k, v, w: np.sum((znp.attention(q, k, v) ** 2).astype(np.float32)), (0, 1, 2), operands()),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_refusals_when_planned(dnn, why):
    loss, argnums, arrays = REFUSED[why]
    gradient = zenith.grad(loss, argnums=argnums)
    jitted, found = run(gradient, *arrays)
    assert why in reasons(jitted) and not any(hasattr(e.operation, "made") for e in dnn.executed)
    for x, want in zip(found, gradient(*(a.astype(np.float64) for a in arrays)), strict=True):
        near(x, want, 5e-2)


def test_heads_that_share_keys_are_kernels(dnn):
    gradient = zenith.grad(shares, argnums=(0, 1, 2))
    jitted, found = run(gradient, *operands())
    assert ("cudnn.sdpa_backward [bf16]", "heads share keys, whose cotangents it would add up") in refusals(jitted)
    for x, want in zip(found, gradient(*(a.astype(np.float64) for a in operands())), strict=True):
        near(x, want, 5e-2)


def test_an_attention_without_a_plan_is_a_kernel(dnn):
    dnn.refuses = lambda operation: hasattr(operation, "made")
    jitted, _ = run(zenith.grad(loss_of(), argnums=(0, 1, 2)), *operands())
    assert refusals(jitted)[0][1].startswith("cuDNN has no plan for it: ") and len(dnn.executed) == 1


def test_small_and_large_are_one_program(gpu, monkeypatch):
    """As for products the sizes of a call decide; a backward pass has more products, so it is worth a call earlier."""
    monkeypatch.setattr(libraries, "CALL", 1e-7)
    with fake_cudnn(gpu) as dnn:
        jitted = zenith.jit(zenith.grad(loss_of(), argnums=(0, 1, 2)))
        for lead, queries in (((1,), 8), ((4,), 128)):
            jitted(*map(on_device, operands(np.float16, lead, queries, queries, 64, 64)))
        assert [hasattr(e.operation, "made") for e in dnn.executed] == [True]
        assert jitted.cache_info().misses == 1


def test_the_engine_is_named():
    assert [e.name for e in libraries.LIBRARY_ENGINES if "attention_vjp" in e.kinds] == ["cudnn_vjp"]
