"""cuBLASLt in derivatives: the epilogues that bodies of real gradients of layers become, and their values."""

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_cublaslt import fake_cublaslt
from tests.backends.cuda.library_checks import BF16, random, reasons, refusals, run, tanh_gelu
from zenith.kernels import gelu as exact_gelu

ACTIVATIONS = {
    "gelu": tanh_gelu,
    "exact gelu": exact_gelu.function,
    "relu": lambda x: np.maximum(x, 0),
}
SIZES = 24, 16, 32, 8  # rows, and columns of each layer


def layers(activation):
    """The loss of two layers, and its gradients by parameters and input."""

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
    """The epilogues that the library was asked for, and the jitted function; checks values against float64."""
    function, (params, x) = layers(ACTIVATIONS[name]), arguments(dtype)

    def flat(*arrays):
        value, (found, of_x) = function(list(arrays[:-1]), arrays[-1])
        return (value, *found, of_x)

    jitted, results = run(flat, *params, x)
    assert not refusals(jitted)
    wide = flat(*(a.astype(np.float64) for a in (*params, x)))  # at once, node by node
    bound = 4e-2 if dtype == BF16 else 1e-5
    for found, want in zip(results, wide, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), want, bound, bound * np.abs(want).max())
    return [m.problem.epilogue for m in lt.matmuls], jitted


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["f32", "bf16"])
def test_gelu_is_saved_and_its_derivative_applied_by_the_library(lt, dtype):
    """The forward pass saves gelu's argument alone, which is what the library writes and reads."""
    epilogues, jitted = gradients(lt, "gelu", dtype)
    assert sorted(epilogues) == ["BGRADA", "BGRADA", "DEFAULT", "DEFAULT", "DGELU", "GELU_AUX_BIAS"]
    assert "some results do not follow from it" in reasons(jitted), "recomputing gelu is a separate kernel"


def test_the_mask_of_relu_is_bits_that_kernels_do_not_know(lt):
    """RELU_AUX and DRELU: the reason is reported, and a kernel after the call applies the mask."""
    epilogues, jitted = gradients(lt, "relu")
    assert sorted(epilogues) == ["BGRADA", "BGRADA", "BIAS", "DEFAULT", "DEFAULT", "DEFAULT"]
    assert "relu's mask is bits of the library's own, which kernels can neither read nor write" in reasons(jitted)


def test_gelu_by_erf_is_a_kernel_after_the_call(lt):
    epilogues, _ = gradients(lt, "exact gelu")
    assert not {"DGELU", "GELU_AUX_BIAS"} & {*epilogues} and len(epilogues) == 6


def test_a_loss_of_sums(lt):
    """The epilogue of the last product has no bias, and the gradient of a sum is a number repeated."""

    def loss(w, b, v, x):
        return np.sum(tanh_gelu(x @ w + b) @ v)

    arrays = random((6, 16)), random((16,), seed=1), random((16, 8), seed=2), random((10, 6), seed=3)
    gradient = zenith.grad(loss, argnums=(0, 1, 2))
    jitted, results = run(gradient, *arrays)
    assert len(lt.matmuls) >= 4, str(jitted.explain())
    for found, want in zip(results, gradient(*arrays), strict=True):
        np.testing.assert_allclose(found, want, 2e-5, 2e-5)


# --- bias gradients ---


def weight_and_bias(transposed=False):
    """The gradients of a layer's weight and bias from the cotangent of its result."""

    def function(x, dy):
        return (dy.T @ x if transposed else x.T @ dy), np.sum(dy, axis=0)

    return function


def sums(lt, function, *arrays, epilogues, launches=0):
    """Check values, the epilogues that the library was asked for, and how many kernels ran in addition."""
    before, already = len(lt.driver.launches), len(lt.matmuls)
    jitted, results = run(function, *arrays)
    assert [m.problem.epilogue for m in lt.matmuls[already:]] == epilogues
    assert len(lt.driver.launches) - before == launches
    for found, want in zip(results, function(*(a.astype(np.float64) for a in arrays)), strict=True):
        bound = 1e-5 if found.dtype == np.float32 else 1.6e-2
        np.testing.assert_allclose(found.astype(np.float64), want, bound, bound * np.abs(want).max())
    return jitted


@pytest.mark.parametrize("dtype", [np.float32, BF16, np.float16], ids=["f32", "bf16", "f16"])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_gradient_of_a_bias_comes_with_the_weights(lt, transposed, dtype):
    """One call and no kernel; the call rounds the sums of 16-bit floats, too."""
    x, dy = random((12, 6), dtype), random((12, 16), dtype, 1)
    epilogue = "BGRADB" if transposed else "BGRADA"
    jitted = sums(lt, weight_and_bias(transposed), x, dy, epilogues=[epilogue])
    operands = "left](dy, x," if transposed else "right](x, dy,"
    assert f"sums of the {operands} result0, result1, workspace)" in jitted.show("plan")


def test_examples_of_several_rows_are_rows(lt):
    """Sums of leading axes, the product of the same memory as a matrix."""
    w, b, x = random((6, 16)), random((16,), seed=1), random((3, 4, 6), seed=2)
    gradient = zenith.grad(lambda w, b, x: np.sum(np.tanh(x @ w + b)), argnums=(0, 1))
    sums(lt, gradient, w, b, x, epilogues=["DEFAULT", "BGRADA"], launches=1)


def test_the_addend_of_the_product_may_be_read_by_the_library(lt):
    """A step of descent: the weight is the addend, and the bias's step follows the sums."""
    x, dy, w, b = random((12, 6)), random((12, 16), seed=1), random((6, 16), seed=2), random((16,), seed=3)

    def function(x, dy, w, b):
        return w - 0.25 * (x.T @ dy), b - 0.25 * np.sum(dy, axis=0)

    sums(lt, function, x, dy, w, b, epilogues=["BGRADA"], launches=1)


OTHER_SUMS = {
    "other rows": lambda x, dy: (x.T @ dy, np.sum(dy[1:], axis=0)),
    "along rows": lambda x, dy: (x.T @ dy, np.sum(dy, axis=1)),
    "other terms": lambda x, dy: (dy @ dy.T, np.sum(dy, axis=0)),
    "of squares": lambda x, dy: (x.T @ dy, np.sum(dy * dy, axis=0)),
    "largest": lambda x, dy: (x.T @ dy, np.max(dy, axis=0)),
    "in the prologue": lambda x, dy: ((x * np.sum(dy, axis=0)[:6]).T @ dy, np.sum(dy, axis=0)),
}


@pytest.mark.parametrize("name", OTHER_SUMS)
def test_other_sums_are_kernels(lt, name):
    _, results = run(OTHER_SUMS[name], x := random((12, 6)), dy := random((12, 16), seed=1))
    assert [m.problem.epilogue for m in lt.matmuls] == ["DEFAULT"]
    for found, want in zip(results, OTHER_SUMS[name](x.astype(np.float64), dy.astype(np.float64)), strict=True):
        np.testing.assert_allclose(found, want, 1e-5, 1e-4)


@pytest.mark.parametrize(
    ("function", "dtype", "why"),
    [
        (lambda x, dy: (np.maximum(x.T @ dy, 0), np.sum(dy, axis=0)), np.float32,
         "the product has another epilogue, and the library has one"),
        (lambda x, dy: (x.T @ dy, np.sum(dy.astype(np.float32), axis=0)), BF16,
         "the sums are f32, and the library gives them in the product's type bf16"),
    ],
    ids=["relu epilogue", "wider sums"],
)  # fmt: skip
def test_bias_gradients_that_the_library_lacks_for_this_product(lt, function, dtype, why):
    jitted, _ = run(function, random((12, 6), dtype), random((12, 16), dtype, 1))
    assert why in reasons(jitted) and not {"BGRADA", "BGRADB"} & {m.problem.epilogue for m in lt.matmuls}


def test_without_an_algorithm_the_product_is_the_librarys_still(lt):
    """One choice inside of the other; sums of one term are not asked for."""
    lt.refuses = lambda problem: problem.epilogue == "BGRADA" and problem.sizes[2] > 12
    jitted = zenith.jit(weight_and_bias())
    for rows, epilogue, launches in ((12, "BGRADA", 0), (13, "DEFAULT", 1), (1, "DEFAULT", 1)):
        x, dy = random((rows, 6)), random((rows, 16), seed=1)
        before = len(lt.driver.launches)
        results = [on_host(r) for r in jitted(on_device(x), on_device(dy))]
        assert lt.matmuls[-1].problem.epilogue == epilogue and (len(lt.driver.launches) > before) == bool(launches)
        for found, want in zip(results, weight_and_bias()(x, dy), strict=True):
            np.testing.assert_allclose(found, want, 1e-5, 1e-5)
    assert len(lt.matmuls) == 3 and len(refusals(jitted)) == 2


def test_small_pairs_are_kernels(gpu):
    """The cost of a call is weighed against its gain, as for every product."""
    with fake_cublaslt(gpu) as lt:
        jitted = zenith.jit(weight_and_bias())
        for size in (16, 640):
            jitted(on_device(random((size, size))), on_device(random((size, size), seed=1)))
        assert [m.problem.epilogue for m in lt.matmuls] == ["BGRADA"]
        assert "where " in jitted.show("plan")
