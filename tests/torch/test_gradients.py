"""Gradients of compiled modules against those of the modules themselves, in float64, also at corners."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import zenith
from tests.torch.function import Function

GENERATOR = torch.Generator().manual_seed(0)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=GENERATOR)


CORNERS = torch.tensor([[-3.0, -1.0, 0.0, 1.0], [3.0, 6.0, 0.5, 20.0]], dtype=torch.float64)
IMAGES, CHANNELS, SCORES = draw(3, 4, 2, 5), draw(2, 4), draw(5, 4)
CLASSES = torch.tensor([3, 0, 2, 2, 1])
WEIGHTS = [draw(*shape) / 2 for shape in ((12, 3), (12, 4), (12,), (12,))]
DEFINITE = (lambda a: a @ a.mT + torch.eye(4))(draw(4, 4))


def _of_vectors(values, vectors):
    """A matrix that no sign of a vector changes."""
    return (vectors * values.sin()) @ vectors.mT


CASES = {
    "activations": (lambda x: (F.relu(x), F.relu6(x), F.hardtanh(x), F.hardswish(x), F.leaky_relu(x), F.elu(x),
                               F.softplus(x), F.mish(x), F.logsigmoid(x), x.softmax(1), x.log_softmax(0), F.glu(x),
                               F.gelu(x), x.clamp(-1, 1), x.clamp_min(0), torch.clamp(x, x.flip(0), x + 1)), CORNERS),
    "batch norm": (lambda x, w: (F.batch_norm(x, None, None, w[0], w[1], training=True),
                                 F.batch_norm(x, w[0].detach(), w[1].detach().exp(), w[1])), IMAGES, CHANNELS),
    "other norms": (lambda x, w: (F.group_norm(x, 2, w[0], w[1]), F.instance_norm(x, weight=w[0], bias=w[1]),
                                  F.layer_norm(x, (2, 5)), F.rms_norm(x, (5,))), IMAGES, CHANNELS),
    "losses of classes": (lambda x, w: (F.cross_entropy(x, CLASSES, label_smoothing=0.1, ignore_index=2),
                                        F.nll_loss(x, CLASSES, reduction="none"), F.cross_entropy(x, w.softmax(1)),
                                        torch.ops.aten.nll_loss_forward(x, CLASSES, None, 1, 2)[0]),
                          SCORES, draw(5, 4)),
    "other losses": (lambda x, y: (F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), F.huber_loss(x, y),
                                   F.binary_cross_entropy_with_logits(x, y), F.smooth_l1_loss(x, y), F.mse_loss(x, y),
                                   F.hinge_embedding_loss(x, y.detach().sign()), F.kl_div(x, y.exp(), reduction="sum"),
                                   F.cosine_embedding_loss(x, y, y[:, 0].detach().sign())), SCORES, draw(5, 4)),
    # PyTorch's are those within the symmetric matrices, and those by all elements of a factor
    "factors of symmetric matrices": (
        lambda a: (torch.linalg.cholesky(a), torch.linalg.cholesky(a, upper=True), torch.linalg.eigvalsh(a),
                      torch.linalg.cholesky_ex(a)[0], torch.linalg.pinv(a, hermitian=True),
                      *(_of_vectors(*torch.linalg.eigh(a, UPLO=u)) for u in "LU")), DEFINITE),
    "from Cholesky's factor": (
        lambda low, y: (torch.cholesky_solve(y, low), torch.cholesky_inverse(low), torch.cholesky_inverse(low.mT, True),
                        torch.linalg.solve_triangular(low, y, upper=False)),
        torch.linalg.cholesky(DEFINITE), draw(4, 2)),
    "bags": (lambda w: tuple(F.embedding_bag(CLASSES, w, torch.tensor([0, 2]), mode=m) for m in ("sum", "mean", "max")),
             SCORES),
    "gru": (lambda x, h, *w: torch.gru(x, h, list(w), True, 1, 0.0, False, False, False),
            draw(6, 2, 3), draw(1, 2, 4), *WEIGHTS),
}  # fmt: skip


def number(results):
    """Every result counts, each element with a weight of its own."""
    total = 0.0
    for i, result in enumerate(results):
        weights = np.cos(np.arange(int(np.prod(result.shape))) * 0.7 + i).reshape(tuple(result.shape))
        total = total + (result * torch.tensor(weights)).sum()
    return total


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, *args = CASES[name]
    fast = zenith.from_torch(Function(function), tuple(args), backend="reference")
    (found, expected) = (
        torch.autograd.grad(number(call(*given)), given)
        for call, given in ((f, [a.clone().requires_grad_() for a in args]) for f in (fast, function))
    )
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-9, atol=1e-11)
