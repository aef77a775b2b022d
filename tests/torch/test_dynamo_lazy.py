"""Conjugates and negatives that PyTorch puts off: tensors with a bit set, among arguments and results."""

import pytest
import torch

X, Y = (torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(n)) for n in (0, 1))
ARGUMENTS = {"conjugate": X.conj(), "transposed": X.conj().mT.contiguous().mT, "adjoint": X.mH.mT, "plain": X}


def views(x, y):
    doubled = x * 2
    conjugate = doubled.conj()
    return doubled, conjugate, conjugate * y, conjugate.imag * y.real


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_and_results(name):
    found = torch.compile(views, backend="zenith", options={"backend": "reference"})(ARGUMENTS[name], Y)
    torch.testing.assert_close(found, views(ARGUMENTS[name], Y))


def test_negatives():
    lazy = X.conj().imag
    assert lazy.is_neg()
    found = torch.compile(lambda x: x * 2, backend="zenith", options={"backend": "reference"})(lazy)
    torch.testing.assert_close(found, lazy * 2)


@pytest.mark.filterwarnings("ignore::zenith.errors.FallbackWarning")
def test_residuals_that_share_memory():
    """The eigenvalues' conjugate is saved together with the eigenvalues, whose memory it shares."""

    def value(x):
        values, vectors = torch.linalg.eig(x)
        return (values * values).real.sum() + vectors.abs().sum()

    x = X.real[:, :3].clone().requires_grad_()
    fast = torch.compile(value, backend="zenith", options={"backend": "reference"})
    torch.testing.assert_close(torch.autograd.grad(fast(x), x), torch.autograd.grad(value(x), x), rtol=1e-4, atol=1e-4)
