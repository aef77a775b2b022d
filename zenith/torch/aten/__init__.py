"""From ATen to Zenith: one small rule for each operator of a decomposed ``torch.export`` graph.

A rule is ``rule(c, *args, **kwargs)`` on traced arrays, in the functions of ``zenith.numpy``. The context ``c`` knows
the element type that PyTorch gives the result, so promotion is PyTorch's: arithmetic first converts its operands to it.
"""

from zenith.torch.aten import (
    activations,
    attention,
    complex_numbers,
    convolution,
    corners,
    creation,
    distances,
    elementwise,
    embeddings,
    gradients,
    gradients_of_images,
    losses,
    matrices,
    normalization,
    norms,
    order,
    padding,
    polynomials,
    pooling,
    products,
    recurrent,
    reductions,
    resizing,
    scatter,
    shapes,
    spectra,
)
from zenith.torch.aten.refused import REFUSED, SHAPES, Failed, RefusedResult, core_operators, reason_of
from zenith.torch.aten.rules import RULES, Context, Rule, find, of_rows

of_rows(
    "sum", "mean", "prod", "amax", "amin", "any", "max.dim", "min.dim", "argmax", "argmin", "var.correction", "var.dim",
    "var_mean.correction", "var_mean.dim", "std.correction", "std.dim", "std_mean.correction",
    "linalg_vector_norm", "softmax.int", "_softmax", "log_softmax.int",
    "_log_softmax", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "sort", "sort.stable", "argsort",
    "argsort.stable", "topk", "kthvalue", "median.dim", "nanmedian.dim", "transpose.int", "transpose_copy.int",
    "index_select", "gather",
)  # fmt: skip

__all__ = [
    "REFUSED",
    "RULES",
    "SHAPES",
    "Context",
    "Failed",
    "RefusedResult",
    "Rule",
    "activations",
    "attention",
    "complex_numbers",
    "convolution",
    "core_operators",
    "corners",
    "creation",
    "distances",
    "elementwise",
    "embeddings",
    "find",
    "gradients",
    "gradients_of_images",
    "losses",
    "matrices",
    "normalization",
    "norms",
    "order",
    "padding",
    "polynomials",
    "pooling",
    "products",
    "reason_of",
    "recurrent",
    "reductions",
    "resizing",
    "scatter",
    "shapes",
    "spectra",
]
