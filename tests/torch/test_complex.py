"""Modules with complex numbers agree with PyTorch: components, polar form, products, elementary functions."""

import pytest
import torch

import zenith
from tests.torch.function import Function


def complex_values(*shape, dtype=torch.complex64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(7))


def check(function, *args):
    fast = zenith.from_torch(Function(function).eval(), args)
    with torch.no_grad():
        expected, found = function(*args), fast(*args)
    for f, e in zip(found, expected, strict=True):
        assert (f.dtype, f.shape) == (e.dtype, e.shape)
        torch.testing.assert_close(f, e)


OPERATIONS = {
    "components": lambda z, w, x: (z.real, z.imag, torch.abs(z), torch.angle(z), z.conj() * w, torch.conj(z).sum(0)),
    "views": lambda z, w, x: (torch.view_as_real(z) * 2, torch.view_as_complex(torch.view_as_real(z) + 1), z.sgn()),
    "made": lambda z, w, x: (torch.complex(x, x + 1), torch.polar(x.abs(), x), z + x, z * (1 + 2j), 3.0 - z),
    "products": lambda z, w, x: (z @ w.mT, z * w, z / (w + 3), (z * w).sum(1), z.mean(), z.mT.reshape(-1)),
    "functions": lambda z, w, x: (z.exp(), (z + 3).log(), z.sqrt(), z.sin(), z.tanh(), z == w, z.isnan()),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    check(OPERATIONS[name], complex_values(4, 3), complex_values(4, 3) * 2 - 1, torch.linspace(-1, 2, 12).reshape(4, 3))


def test_rotary_embeddings_by_complex_numbers():
    """As in LLaMA's own code: pairs of features are rotated by angles that grow with the position."""
    rotations = torch.polar(torch.ones(5, 4), torch.outer(torch.arange(5.0), 10000 ** -torch.arange(0, 1, 0.25)))

    def rotate(x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return (torch.view_as_real(pairs * rotations).flatten(-2),)

    check(rotate, torch.randn(2, 5, 8))


def test_tensors_keep_their_kind_under_jit():
    z = complex_values(6, dtype=torch.complex128)
    found = zenith.jit(lambda a: (a * a.conj()).real)(z)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, (z * z.conj()).real)


def test_a_gradient_is_the_conjugate_of_pytorchs():
    z = complex_values(5, dtype=torch.complex128)
    leaf = z.clone().requires_grad_()
    (leaf * leaf + leaf).abs().square().sum().backward()
    found = zenith.grad(lambda a: (abs(a * a + a) ** 2).sum())(z)
    torch.testing.assert_close(found.resolve_conj(), leaf.grad.conj().resolve_conj())
