"""Values and gradients of a function against PyTorch's, in float64."""

import numpy as np
import torch

import zenith


def tensors(arrays):
    """Tensors that share no memory with the arrays; floating-point ones ask for gradients."""
    made = [torch.tensor(a) for a in arrays]
    return [t.requires_grad_() if t.is_floating_point() else t for t in made]


def weighted(results):
    """A scalar in which every element of every result has another weight."""
    total = 0.0
    for i, result in enumerate(results):
        size = int(np.prod(result.shape))
        weights = np.cos(np.arange(size) * 0.7 + i).reshape(tuple(result.shape))
        total = total + (result * (torch.tensor(weights) if torch.is_tensor(result) else weights)).sum()
    return total


def listed(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def agree(ours, theirs, *arrays, tolerance=1e-10, wrap=lambda f: f):
    """Results of ``ours`` on arrays are those of ``theirs`` on tensors, and so are gradients by all floating arrays."""
    given = tensors(arrays)
    expected = listed(theirs(*given))
    found = listed(wrap(ours)(*arrays))
    for f, e in zip(found, expected, strict=True):
        assert tuple(f.shape) == tuple(e.shape)
        np.testing.assert_allclose(f, e.detach().numpy(), rtol=tolerance, atol=tolerance)
    positions = [i for i, t in enumerate(given) if t.is_floating_point()]
    slopes = torch.autograd.grad(weighted(expected), [given[i] for i in positions], allow_unused=True)
    gradient = zenith.grad(lambda *a: weighted(listed(ours(*a))), argnums=tuple(positions))
    for f, e, i in zip(wrap(gradient)(*arrays), slopes, positions, strict=True):
        wanted = np.zeros(arrays[i].shape) if e is None else e.numpy()
        np.testing.assert_allclose(f, wanted, rtol=tolerance, atol=tolerance, err_msg=f"gradient by argument {i}")
