"""cuBLASLt in derivatives: which epilogues the bodies become that gradients of layers really have, and their values."""

import numpy as np
import pytest

import zenith
from tests.backends.cuda.library_checks import BF16, random, reasons, refusals, run, tanh_gelu
from zenith.kernels import gelu as exact_gelu

ACTIVATIONS = {
    "gelu": tanh_gelu,
    "exact gelu": exact_gelu.function,
    "relu": lambda x: np.maximum(x, 0),
}
SIZES = 24, 16, 32, 8  # rows, and columns of each layer


def layers(activation):
    """The loss of two layers, and of its gradient every part that training needs."""

    def loss(params, x):
        (w1, b1, w2, b2), before = params, x
        y = activation(before @ w1 + b1) @ w2 + b2
        return np.sum((y * y).astype(np.float32))

    return zenith.value_and_grad(loss, argnums=(0, 1))


def arguments(dtype=np.float32):
    rows, first, hidden, last = SIZES
    shapes = (first, hidden), (hidden,), (hidden, last), (last,)
    params = [(random(s, seed=i) / 4).astype(dtype) for i, s in enumerate(shapes)]
    return params, random((rows, first), dtype, 9)


def gradients(lt, name, dtype=np.float32):
    """What the library was asked for, how many kernels ran, the jitted function; values are those of float64."""
    function, (params, x) = layers(ACTIVATIONS[name]), arguments(dtype)

    def flat(*arrays):
        value, (found, back) = function(list(arrays[:-1]), arrays[-1])
        return (value, *found, back)

    jitted, results = run(flat, *params, x)
    assert not refusals(jitted)
    wide = flat(*(a.astype(np.float64) for a in (*params, x)))  # at once, node by node
    bound = 4e-2 if dtype == BF16 else 1e-5
    for found, want in zip(results, wide, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), want, bound, bound * np.abs(want).max())
    return [m.problem.epilogue for m in lt.matmuls], jitted


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["f32", "bf16"])
def test_gelu_is_kept_and_its_derivative_applied_by_the_library(lt, dtype):
    """The way forward keeps gelu's argument alone, which is what the library keeps and reads."""
    epilogues, jitted = gradients(lt, "gelu", dtype)
    assert epilogues == ["GELU_AUX_BIAS", "DEFAULT", "DGELU", "DEFAULT", "DEFAULT", "DEFAULT"]
    assert "some results do not follow from it" in reasons(jitted), "gelu again is a kernel beside"


def test_the_mask_of_relu_is_bits_that_kernels_do_not_know(lt):
    """RELU_AUX and DRELU: the reason is told, and a kernel behind applies the mask."""
    epilogues, jitted = gradients(lt, "relu")
    assert epilogues == ["BIAS", "DEFAULT", "DEFAULT", "DEFAULT", "DEFAULT", "DEFAULT"]
    assert "relu's mask is bits of the library's own, which kernels can neither read nor write" in reasons(jitted)


def test_gelu_by_erf_is_a_kernel_behind(lt):
    epilogues, _ = gradients(lt, "exact gelu")
    assert not {"DGELU", "GELU_AUX_BIAS"} & {*epilogues} and len(epilogues) == 6


def test_a_loss_of_sums(lt):
    """What follows the last product has no bias, and the gradient of a sum is a number repeated."""

    def loss(w, b, v, x):
        return np.sum(tanh_gelu(x @ w + b) @ v)

    arrays = random((6, 16)), random((16,), seed=1), random((16, 8), seed=2), random((10, 6), seed=3)
    gradient = zenith.grad(loss, argnums=(0, 1, 2))
    jitted, results = run(gradient, *arrays)
    assert len(lt.matmuls) >= 4, str(jitted.explain())
    for found, want in zip(results, gradient(*arrays), strict=True):
        np.testing.assert_allclose(found, want, 2e-5, 2e-5)
