"""Activations against PyTorch's: values and gradients, also at corners, far out, of nan; in 16 bits; compiled."""

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.nn import functional as F

import zenith
from tests.nn.compare_torch import agree
from zenith import nn
from zenith.errors import ShapeError

X = np.array([[-3.0, -1.0, -0.3, 0.0, 0.5, 1.0], [2.5, 3.0, 6.0, 7.0, -30.0, 40.0]])
FAR = np.array([np.inf, -np.inf, np.nan, -800.0, 800.0])
PAIRS = {
    "relu": (nn.relu, F.relu),
    "relu6": (nn.relu6, F.relu6),
    "hard_tanh": (lambda x: nn.hard_tanh(x, -0.3, 2.5), lambda x: F.hardtanh(x, -0.3, 2.5)),
    "hard_sigmoid": (nn.hard_sigmoid, F.hardsigmoid),
    "hard_swish": (nn.hard_swish, F.hardswish),
    "leaky_relu": (lambda x: nn.leaky_relu(x, 0.2), lambda x: F.leaky_relu(x, 0.2)),
    "elu": (lambda x: nn.elu(x, 0.7), lambda x: F.elu(x, 0.7)),
    "selu": (nn.selu, F.selu),
    "celu": (lambda x: nn.celu(x, 2.0), lambda x: F.celu(x, 2.0)),
    "silu": (nn.silu, F.silu),
    "gelu": (nn.gelu, F.gelu),
    "gelu by tanh": (lambda x: nn.gelu(x, approximate=True), lambda x: F.gelu(x, approximate="tanh")),
    "mish": (nn.mish, F.mish),
    "softplus": (lambda x: nn.softplus(x, 2.0, 3.0), lambda x: F.softplus(x, 2.0, 3.0)),
    "sigmoid": (nn.sigmoid, torch.sigmoid),
    "log_sigmoid": (nn.log_sigmoid, F.logsigmoid),
    "soft_sign": (nn.soft_sign, F.softsign),
    "glu": (nn.glu, F.glu),
    "softmax": (nn.softmax, lambda x: F.softmax(x, -1)),
    "softmax of columns": (lambda x: nn.softmax(x, 0), lambda x: F.softmax(x, 0)),
    "log_softmax": (nn.log_softmax, lambda x: F.log_softmax(x, -1)),
    "logsumexp": (nn.logsumexp, lambda x: torch.logsumexp(x, -1)),
}
ELEMENTWISE = [name for name in PAIRS if "soft" not in name and name not in ("glu", "logsumexp")]


@pytest.mark.parametrize("name", PAIRS)
def test_values_and_gradients(name):
    agree(*PAIRS[name], X, tolerance=1e-7 if name == "hard_sigmoid" else 1e-10)  # PyTorch has 1 / 6 in float32


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_far_out_and_nan(name):
    """Gradients are no nan where the argument is finite, and PyTorch's there."""
    ours, theirs = PAIRS[name]
    x = torch.tensor(FAR, requires_grad=True)
    y = theirs(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    with np.errstate(all="ignore"):
        found = ours(FAR)
        gradient = zenith.grad(lambda v: np.sum(ours(v)))(FAR)
    finite = np.isfinite(FAR)
    np.testing.assert_allclose(found[2:], y.detach().numpy()[2:], rtol=1e-12)
    np.testing.assert_allclose(gradient[finite], slope.numpy()[finite], rtol=1e-7, atol=1e-12)


def test_softplus_has_all_digits():
    x = np.array([-40.0, -1.0, 0.0, 30.0])
    np.testing.assert_allclose(nn.softplus(x), np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0), rtol=1e-15)


def test_logsumexp_of_nothing_likely():
    assert nn.logsumexp(np.full(3, -np.inf)) == -np.inf and nn.logsumexp(np.array([np.inf, 0.0])) == np.inf


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bits_are_rounded_once(dtype):
    x = X[:1].astype(dtype)
    for name in PAIRS:
        ours = PAIRS[name][0]
        found, exact = ours(x), ours(x.astype(np.float32))
        assert found.dtype == dtype and np.array_equal(found, exact.astype(dtype)), name


def test_compiled_with_gradients():
    """All in one program, in float32, within a bound around float64; another shape is no other program."""

    def everything(x):
        found = [PAIRS[name][0](x) for name in ELEMENTWISE]
        slopes = [zenith.grad(lambda v, f=PAIRS[name][0]: np.sum(f(v)))(x) for name in ELEMENTWISE]
        return [*found, *slopes]

    compiled = zenith.jit(everything)
    for x in (X, X[:, :5] * 0.9):
        for found, exact in zip(compiled(x.astype(np.float32)), everything(x), strict=True):
            np.testing.assert_allclose(found, exact, rtol=3e-6, atol=3e-6)
    assert compiled.cache_info().misses == 1


def test_one_hot():
    x = np.array([[2, 0], [-1, 3]])
    expected = np.eye(3, dtype=np.float32)[np.clip(x, 0, 2)] * ((x >= 0) & (x < 3))[..., None]
    assert np.array_equal(nn.one_hot(x, 3), expected)
    assert np.array_equal(nn.one_hot(x, 3, np.int64, axis=0), np.moveaxis(expected, -1, 0))


def test_glu_needs_halves():
    with pytest.raises(ShapeError, match=r"halves an axis, whose size 3 is odd"):
        nn.glu(np.ones(3))
