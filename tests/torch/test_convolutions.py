"""Convolutions and their transposes as PyTorch's functions give them: whole, with whatever arguments they leave out."""

import pytest
import torch
from torch.nn import functional as F

import zenith
from tests.torch.function import Function
from zenith.torch.export import _is_whole

CASES = {
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, 2, 1), (2, 4, 9), (6, 4, 3)),
    "groups": (lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 0), 1, 2), (2, 4, 9, 8), (6, 2, 3, 3)),
    "no bias": (lambda x, w, b: F.conv2d(x, w, stride=2) + b[:, None, None], (2, 4, 9, 8), (6, 4, 3, 2)),
    "one example": (lambda x, w, b: F.conv2d(x, w, b, padding=1), (4, 9, 8), (6, 4, 3, 3)),
    "same": (lambda x, w, b: F.conv2d(x, w, b, padding="same", dilation=2), (2, 4, 9, 8), (6, 4, 4, 3)),
    "valid": (lambda x, w, b: F.conv1d(x, w, b, padding="valid", stride=2), (2, 4, 9), (6, 4, 4)),
    "conv3d": (lambda x, w, b: F.conv3d(x, w, b, 2), (2, 4, 7, 8, 6), (6, 4, 2, 3, 2)),
    "transpose1d": (lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1), (2, 4, 9), (4, 6, 3)),
    "transpose2d": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), 1, (1, 2), 2, (1, 2)), (2, 4, 9, 8), (4, 3, 3, 3),
    ),
    "transpose of one": (lambda x, w, b: F.conv_transpose2d(x, w, b), (4, 9, 8), (4, 6, 3, 3)),
    "transpose3d": (lambda x, w, b: F.conv_transpose3d(x, w, b, 2), (1, 4, 3, 4, 5), (4, 6, 2, 2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    function, *shapes = CASES[name]
    generator = torch.Generator().manual_seed(0)
    args = [torch.rand(s, generator=generator, dtype=torch.float64) - 0.5 for s in (*shapes, (6,))]
    fast = zenith.from_torch(Function(function), tuple(args), backend="reference")
    assert all(_is_whole(e.program) for exports in fast._programs.mode.exports.values() for e in exports)
    found, expected = ([a.clone().requires_grad_() for a in args] for _ in range(2))
    results = fast(*found), function(*expected)
    torch.testing.assert_close(*results)
    for result in results:
        result.sin().sum().backward()
    torch.testing.assert_close([a.grad for a in found], [a.grad for a in expected])
