"""From ATen to Zenith: one small rule for each operator of a decomposed ``torch.export`` graph.

A rule is ``rule(c, *args, **kwargs)`` on traced arrays, in the functions of ``zenith.numpy``. The context ``c`` knows
the element type that PyTorch gives the result, so promotion is PyTorch's: arithmetic first converts its operands to it.
"""

from zenith.torch.aten import (
    activations,
    attention,
    complex_numbers,
    convolution,
    creation,
    elementwise,
    embeddings,
    losses,
    normalization,
    order,
    padding,
    pooling,
    products,
    recurrent,
    reductions,
    resizing,
    shapes,
    spectra,
)
from zenith.torch.aten.rules import RULES, Context, find

__all__ = [
    "RULES",
    "Context",
    "activations",
    "attention",
    "complex_numbers",
    "convolution",
    "creation",
    "elementwise",
    "embeddings",
    "find",
    "losses",
    "normalization",
    "order",
    "padding",
    "pooling",
    "products",
    "recurrent",
    "reductions",
    "resizing",
    "shapes",
    "spectra",
]
