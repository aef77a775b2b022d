"""Products of matrices; a linear layer is the product with its weight as PyTorch stores it, transposed."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith.torch.aten.rules import RULES, Context, rounded_once, rule

for _name in ("mm", "bmm", "matmul"):
    RULES[_name] = lambda c, x, y: znp.matmul(x, y)


@rule("addmm", "baddbmm")
@rounded_once
def _addmm(c: Context, bias: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = znp.matmul(x, y)
    return (product if alpha == 1 else product * alpha) + (bias if beta == 1 else bias * beta)


@rule("linear")
@rounded_once
def _linear(c: Context, x: Any, weight: Any, bias: Any = None) -> Any:
    product = znp.matmul(x, znp.transpose(weight))
    return product if bias is None else product + bias


@rule("einsum")
def _einsum(c: Context, equation: str, operands: Any, **_: Any) -> Any:
    return znp.einsum(equation, *operands)
