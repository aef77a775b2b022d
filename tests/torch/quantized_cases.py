"""Operators on levels of few bits, called by their own names, and the product with a matrix in levels.

Modules that PyTorch quantises stand in tests/torch/test_quantized_graphs.py. Numbers here lie far from where two levels
meet: at the border, how a sum is rounded would decide.
"""

import torch
import torch.ao.quantization.fx._decomposed  # which registers the operators

import zenith.torch.grouped_linear  # noqa: F401 (which registers its own)
from tests.torch.chapters import chapters

X = torch.tensor([[0.53, -1.48, 2.01, 0.0], [3.03, -0.27, 1.02, 7.47], [-2.03, 4.04, 0.13, 1.52]])
SCALES, ZEROS = torch.tensor([0.05, 0.02, 0.04]), torch.tensor([3, -5, 0])
BYTES = torch.arange(-60, 60, dtype=torch.int8).reshape(8, 15)
ops, i8 = torch.ops.quantized_decomposed, torch.int8


def levels(x, scales, zeros):
    limits = -128, 127, i8
    for scale, zero in ((0.05, 3), (scales[0], zeros[0])):
        overload = "tensor" if isinstance(scale, torch.Tensor) else "default"
        q = getattr(ops.quantize_per_tensor, overload)(x, scale, zero, *limits)
        yield q, getattr(ops.dequantize_per_tensor, overload)(q, scale, zero, *limits)
    q = ops.quantize_per_channel(x, scales, zeros, 0, *limits)
    yield q, ops.dequantize_per_channel(q, scales, zeros, 0, *limits)
    q = ops.quantize_per_token(x, scales[:, None], zeros[:, None], *limits)
    yield q, ops.dequantize_per_token(q, scales[:, None], zeros[:, None], *limits, torch.float32)


def ranges(x):
    for found in (
        ops.choose_qparams.tensor(x, 0, 255, 1e-4, torch.uint8), ops.choose_qparams_per_token(x, i8),
        ops.choose_qparams_symmetric.tensor(x, -127, 127, 1e-4, i8), ops.choose_qparams_per_token_asymmetric(x, i8),
    ):  # fmt: skip
        yield tuple(v.double() for v in found)  # exports declare other types than PyTorch computes in


def products_of_levels(bytes_):
    """The numbers of the second are levels themselves, 127 in each group, so that rounding them loses nothing."""
    yield torch._int_mm(bytes_[:, :8].contiguous(), bytes_)
    x = torch.cat([torch.full((8, 1), 127.0), bytes_[:, :7]] * 2, 1)
    packed, scales = (bytes_[:8, :8] + 60).to(torch.uint8), torch.full((2, 8), 0.25)
    for shifts in (None, -scales):
        yield torch.ops.zenith.grouped_linear(x, packed, scales, shifts, 4)


QUANTIZED = chapters({
    levels: (X, SCALES, ZEROS), ranges: (X,), products_of_levels: (BYTES,),
})  # fmt: skip
