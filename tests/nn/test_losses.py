"""Losses against PyTorch's: values and gradients of every reduction, at bounds, of what is ignored; compiled."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import zenith
from tests.nn.compare_torch import agree
from zenith import nn
from zenith.errors import ArgumentError, OutOfBoundsError, ShapeError

RNG = np.random.default_rng(0)
X, Y, Z = RNG.standard_normal((3, 4, 5))
P, Q = RNG.random((2, 4, 5)) * 0.8 + 0.1
V = np.array([0.5, 2.0, 1e-9, 1.0, 0.1])
SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
REDUCTIONS = ("mean", "sum", "none")
PAIRS = {
    "mse": (nn.mse_loss, F.mse_loss, X, Y),
    "l1": (nn.l1_loss, F.l1_loss, X, Y),
    "huber": (lambda *a, **o: nn.huber_loss(*a, 0.7, **o), lambda *a, **o: F.huber_loss(*a, delta=0.7, **o), X, Y),
    "smooth l1": (lambda *a, **o: nn.smooth_l1_loss(*a, 0.7, **o), lambda *a, **o: F.smooth_l1_loss(*a, beta=0.7, **o),
                  X, Y),
    "smooth l1 of 0": (lambda *a, **o: nn.smooth_l1_loss(*a, 0, **o), lambda *a, **o: F.smooth_l1_loss(*a, beta=0, **o),
                       X, Y),
    "bce": (nn.binary_cross_entropy, F.binary_cross_entropy, P, Q),
    "bce of weights": (lambda *a, **o: nn.binary_cross_entropy(*a, Z, **o),
                       lambda *a, **o: F.binary_cross_entropy(*a, torch.tensor(Z), **o), P, Q),
    "bce with logits": (nn.binary_cross_entropy_with_logits, F.binary_cross_entropy_with_logits, X * 9, Q),
    "bce of positive weights": (
        lambda x, y, **o: nn.binary_cross_entropy_with_logits(x, y, Z, V, **o),
        lambda x, y, **o: F.binary_cross_entropy_with_logits(
            x, y, torch.tensor(Z), pos_weight=torch.tensor(V), **o), X, Q),
    "kl": (nn.kl_div, F.kl_div, X, Q),
    "kl of logarithms": (lambda *a, **o: nn.kl_div(*a, log_target=True, **o),
                         lambda *a, **o: F.kl_div(*a, log_target=True, **o), X, Y),
    "poisson": (nn.poisson_nll_loss, F.poisson_nll_loss, X, Q * 4),
    "poisson, full": (lambda *a, **o: nn.poisson_nll_loss(*a, log_input=False, full=True, **o),
                      lambda *a, **o: F.poisson_nll_loss(*a, log_input=False, full=True, **o), P, Q * 4),
    "gaussian": (nn.gaussian_nll_loss, F.gaussian_nll_loss, X, Y, V * np.ones((4, 1))),
    "gaussian, full": (lambda *a, **o: nn.gaussian_nll_loss(*a, full=True, **o),
                       lambda *a, **o: F.gaussian_nll_loss(*a, full=True, **o), X, Y, P),
    "hinge": (lambda x, **o: nn.hinge_embedding_loss(x, SIGNS[:, None], 0.5, **o),
              lambda x, **o: F.hinge_embedding_loss(x, torch.tensor(SIGNS)[:, None], 0.5, **o), X),
    "cosine": (lambda x, y, **o: nn.cosine_embedding_loss(x, y, SIGNS, -0.4, **o),
               lambda x, y, **o: F.cosine_embedding_loss(x, y, torch.tensor(SIGNS), -0.4, **o), X, Y),
    "triplet": (nn.triplet_margin_loss, F.triplet_margin_loss, X, Y, Z),
    "triplet, swapped": (lambda *a, **o: nn.triplet_margin_loss(*a, 2.0, 3.0, swap=True, **o),
                         lambda *a, **o: F.triplet_margin_loss(*a, margin=2.0, p=3.0, swap=True, **o), X, Y, Z),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("name", PAIRS)
def test_values_and_gradients(name):
    ours, theirs, *arrays = PAIRS[name]
    for reduction in REDUCTIONS:
        agree(lambda *a, r=reduction: ours(*a, reduction=r), lambda *a, r=reduction: theirs(*a, reduction=r), *arrays)


def test_the_divergence_is_a_mean_over_the_batch():
    agree(lambda x, y: nn.kl_div(x, y, reduction="batchmean"), lambda x, y: F.kl_div(x, y, reduction="batchmean"), X, Q)


def test_certain_probabilities_have_finite_gradients():
    p, y = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0])
    with np.errstate(divide="ignore"):
        agree(lambda p: nn.binary_cross_entropy(p, y), lambda p: F.binary_cross_entropy(p, torch.tensor(y)), p,
              tolerance=1e-8)  # fmt: skip


CLASSES = np.array([3, 0, 4, 0])
CLASS_WEIGHTS = RNG.random(5) + 0.5
OPTIONS = {
    "plain": {},
    "ignored": {"ignore_index": 0},
    "smoothed": {"label_smoothing": 0.2},
    "both": {"ignore_index": 0, "label_smoothing": 0.2},
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", OPTIONS)
def test_cross_entropy(name, reduction):
    options = {"reduction": reduction, **OPTIONS[name]}
    for weight in (None, CLASS_WEIGHTS):
        ours = {"weight": weight, **options}
        theirs = {"weight": None if weight is None else torch.tensor(weight), **options}
        agree(lambda x, o=ours: nn.cross_entropy(x, CLASSES, **o),
              lambda x, o=theirs: F.cross_entropy(x, torch.tensor(CLASSES), **o), X)  # fmt: skip
    if "label_smoothing" not in options:
        agree(lambda x: nn.nll_loss(x, CLASSES, **ours), lambda x: F.nll_loss(x, torch.tensor(CLASSES), **theirs), X)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy_with_probabilities(reduction):
    weight = torch.tensor(CLASS_WEIGHTS)
    agree(lambda x, y: nn.cross_entropy(x, y, CLASS_WEIGHTS, label_smoothing=0.1, reduction=reduction),
          lambda x, y: F.cross_entropy(x, y, weight, label_smoothing=0.1, reduction=reduction), X, Q)  # fmt: skip


def test_cross_entropy_of_images_and_of_one_example():
    images, classes = RNG.standard_normal((2, 5, 3, 4)), RNG.integers(0, 5, (2, 3, 4))
    agree(lambda x: nn.cross_entropy(x, classes, CLASS_WEIGHTS),
          lambda x: F.cross_entropy(x, torch.tensor(classes), torch.tensor(CLASS_WEIGHTS)), images)  # fmt: skip
    np.testing.assert_allclose(nn.cross_entropy(np.moveaxis(images, 1, -1), classes, axis=-1),
                               nn.cross_entropy(images, classes), rtol=1e-12)  # fmt: skip
    agree(lambda x: nn.cross_entropy(x, np.array(2)), lambda x: F.cross_entropy(x, torch.tensor(2)), X[0])


def test_small_losses_keep_their_digits():
    scores = np.array([[1000.0, 990.0, -np.inf]])
    np.testing.assert_allclose(nn.cross_entropy(scores, np.array([0])), np.log1p(np.exp(-10.0)), rtol=1e-12)


def test_forward_and_second_derivatives():
    def loss(x):
        return nn.cross_entropy(x, CLASSES)

    _, slope = zenith.jvp(loss, (X,), (Y,))
    np.testing.assert_allclose(slope, np.sum(zenith.grad(loss)(X) * Y), rtol=1e-10)
    hessian = torch.autograd.functional.hessian(lambda x: F.cross_entropy(x, torch.tensor(CLASSES)), torch.tensor(X))
    _, found = zenith.jvp(zenith.grad(loss), (X,), (Y,))
    np.testing.assert_allclose(found, np.einsum("abcd,cd->ab", hessian.numpy(), Y), rtol=1e-8, atol=1e-12)


def test_compiled_cross_entropy():
    """Value and gradient in float32, of two batches by one program; a number that is no class is an error."""
    step = zenith.jit(zenith.value_and_grad(lambda x, y: nn.cross_entropy(x, y, ignore_index=7, label_smoothing=0.1)))
    for count in (33, 6):
        x, y = RNG.standard_normal((count, 20)) * 5, RNG.integers(0, 20, count)
        y[1] = 7
        t = torch.tensor(x, requires_grad=True)
        exact = F.cross_entropy(t, torch.tensor(y), ignore_index=7, label_smoothing=0.1)
        exact.backward()
        value, gradient = step(x.astype(np.float32), y)
        np.testing.assert_allclose(value, exact.item(), rtol=1e-6)
        np.testing.assert_allclose(gradient, t.grad.numpy(), rtol=2e-5, atol=1e-8)
    assert step.cache_info().misses == 1
    for wrong in (20, -1):
        with pytest.raises(OutOfBoundsError, match="index"):
            step(x.astype(np.float32), np.full(6, wrong))


def test_refusals():
    with pytest.raises(ArgumentError, match="no reduction 'median'"):
        nn.mse_loss(X, Y, reduction="median")
    with pytest.raises(ShapeError, match="one class for each example"):
        nn.cross_entropy(X, CLASSES[:, None])
    with pytest.raises(ShapeError, match="classes"):
        nn.nll_loss(X, CLASSES[:3])
    with pytest.raises(ShapeError, match="probabilities of classes need the shape of scores"):
        nn.cross_entropy(X, X[0])


# --- connectionist temporal classification ---

SPOKEN = RNG.integers(1, 6, (4, 5))
SPOKEN[0, 1] = SPOKEN[0, 0]  # a repeated class needs a blank between
FRAMES, LENGTHS = np.array([12, 9, 5, 7]), np.array([5, 3, 4, 0])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc_loss(reduction):
    def theirs(x):
        lengths = torch.tensor(FRAMES), torch.tensor(LENGTHS)
        return F.ctc_loss(x.log_softmax(-1), torch.tensor(SPOKEN), *lengths, reduction=reduction)

    def ours(x):
        return nn.ctc_loss(nn.log_softmax(x), SPOKEN, FRAMES, LENGTHS, reduction=reduction)

    agree(ours, theirs, RNG.standard_normal((12, 4, 6)))


def test_impossible_alignments():
    frames, lengths = np.array([12, 2, 5, 7]), np.array([5, 3, 4, 1])
    x, sizes = RNG.standard_normal((12, 4, 6)), (torch.tensor(frames), torch.tensor(lengths))
    agree(lambda x: nn.ctc_loss(nn.log_softmax(x), SPOKEN - 1, frames, lengths, blank=5, zero_infinity=True),
          lambda x: F.ctc_loss(x.log_softmax(-1), torch.tensor(SPOKEN - 1), *sizes, blank=5, zero_infinity=True),
          x)  # fmt: skip
    losses = nn.ctc_loss(nn.log_softmax(x), SPOKEN - 1, frames, lengths, blank=5, reduction="none")
    assert losses[1] == np.inf and np.isfinite(losses[[0, 2, 3]]).all()


def test_ctc_refusals():
    x = nn.log_softmax(np.zeros((3, 1, 4)))
    with pytest.raises(ShapeError, match="pad the targets to one length"):
        nn.ctc_loss(x, [1, 2], [3], [2])
    with pytest.raises(OutOfBoundsError):
        nn.ctc_loss(x, [[1, 2]], [4], [2])


def test_gaussian_nll_of_an_infinite_variance():
    x, y, var = np.zeros(2), np.ones(2), np.array([np.inf, 1e-9])
    found = nn.gaussian_nll_loss(x, y, var, reduction="none")
    expected = F.gaussian_nll_loss(*map(torch.tensor, (x, y, var)), reduction="none")
    np.testing.assert_allclose(found, expected)
