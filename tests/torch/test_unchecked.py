"""Functions of PyTorch that look at values: from_torch computes and differentiates them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import zenith
from tests.torch.function import Function
from zenith.errors import CheckError

X = torch.tensor([[0.5, -1.5, 2.0, 0.0], [3.0, -0.25, 1.0, 7.5], [-2.0, 4.0, 0.125, 1.5]], dtype=torch.float64)
VAR, OFTEN = X.abs() + 0.1, torch.tensor([1, 3, 2, 1])


def gaussian(x, v):
    yield F.gaussian_nll_loss(x, x.flip(0), v), F.gaussian_nll_loss(x, x.flip(1), v[:, 0], full=True, reduction="sum")
    yield F.gaussian_nll_loss(x, x.flip(0), 0.5, reduction="none"), nn.GaussianNLLLoss(eps=1.0)(x, x.flip(0), v)


def covariances(x, v):
    yield torch.cov(x), x.cov(correction=0), torch.cov(x[0]), torch.corrcoef(x), x[1].corrcoef()
    yield torch.cov(x, fweights=OFTEN, aweights=v[0]), torch.cov(x, correction=2, fweights=OFTEN)


def alignments(x, v):
    scores = torch.stack([x.repeat(3, 1), x.flip(0).repeat(3, 1)], 1).log_softmax(2)
    targets, ends, lengths = torch.tensor([[1, 2, 2], [3, 1, 0]]), torch.tensor([9, 7]), torch.tensor([3, 2])
    yield F.ctc_loss(scores, targets, ends, lengths), F.ctc_loss(scores, targets, (9, 7), (3, 2), reduction="none")
    yield (nn.CTCLoss(zero_infinity=True, reduction="sum")(scores, targets, torch.tensor([9, 2]), lengths),)
    yield (F.ctc_loss(scores[:, 0], targets[0], torch.tensor(9), torch.tensor(3), reduction="none"),)


@pytest.mark.parametrize("cases", [gaussian, covariances, alignments])
def test_values_and_gradients(cases):
    def function(x, v):
        return [result for results in cases(x, v) for result in results]

    seen = []
    for call in (zenith.from_torch(Function(function), (X, VAR), backend="reference"), function):
        given = [X.clone().requires_grad_(), VAR.clone().requires_grad_()]
        results = call(*given)
        total = sum((r * torch.arange(1.0, r.numel() + 1).reshape(r.shape)).sum() for r in results)
        seen.append((list(results), torch.autograd.grad(total, given, allow_unused=True)))
    torch.testing.assert_close(*seen)


def test_a_negative_variance_is_refused():
    fast = zenith.from_torch(Function(F.gaussian_nll_loss), (X, X, VAR), backend="reference")
    with pytest.raises(CheckError, match="var has negative entry"):
        fast(X, X, VAR - 0.2)


def test_cumulative_averages_of_a_batch_norm():
    modules = [nn.BatchNorm1d(4, momentum=None) for _ in range(2)]
    calls = [zenith.from_torch(modules[0], (X.float(),), backend="reference"), modules[1]]
    for shift in (0.0, 1.0, 5.0):
        torch.testing.assert_close(*(call(X.float() * 2 + shift) for call in calls))
    torch.testing.assert_close(*(module.state_dict() for module in modules))
