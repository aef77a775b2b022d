"""Products of matrices; a linear layer is the product with its weight as PyTorch stores it, transposed."""

from __future__ import annotations

from collections.abc import Sequence

import zenith.numpy as znp
from zenith.numpy.typing import Array
from zenith.torch.aten.rules import RULES, Context, of_one_dtype, rounded_once, rule

for _name in ("mm.default", "bmm.default", "matmul"):
    RULES[_name] = of_one_dtype(lambda c, x, y: znp.matmul(x, y))


@rule("addmm.default", "baddbmm.default")
@of_one_dtype
@rounded_once
def _addmm(c: Context, bias: Array, x: Array, y: Array, *, beta: complex = 1, alpha: complex = 1) -> Array:
    product = znp.matmul(x, y)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else product + (bias if beta == 1 else bias * beta)


@rule("addmv")
@of_one_dtype
@rounded_once
def _addmv(c: Context, bias: Array, x: Array, y: Array, *, beta: complex = 1, alpha: complex = 1) -> Array:
    return _addmm(c, bias, x, y, beta=beta, alpha=alpha)


@rule("addbmm")
@of_one_dtype
@rounded_once
def _addbmm(c: Context, bias: Array, x: Array, y: Array, *, beta: complex = 1, alpha: complex = 1) -> Array:
    """The sum of the products of a stack."""
    product = znp.einsum("bij,bjk->ik", x, y) * alpha
    return product if beta == 0 else bias * beta + product


@rule("_trilinear")
@of_one_dtype
@rounded_once
def _trilinear(
    c: Context, x: Array, y: Array, z: Array, expand1: Sequence[int], expand2: Sequence[int], expand3: Sequence[int],
    sumdim: Sequence[int], unroll_dim: int = 1,
) -> Array:  # fmt: skip
    """The sum of products of three arrays over axes that all of them have, once new axes of size 1 are put in."""
    x, y, z = (_with_axes(a, at) for a, at in ((x, expand1), (y, expand2), (z, expand3)))
    return znp.sum(x * y * z, axis=tuple(sumdim))


def _with_axes(x: Array, axes: Sequence[int]) -> Array:
    for axis in sorted(axes):
        x = znp.expand_dims(x, axis)
    return x


@rule("linear")
@of_one_dtype
@rounded_once
def _linear(c: Context, x: Array, weight: Array, bias: Array | None = None) -> Array:
    product = znp.matmul(x, znp.transpose(weight))
    return product if bias is None else product + bias


@rule("einsum")
@of_one_dtype
def _einsum(c: Context, equation: str, operands: Sequence[Array], **_: object) -> Array:
    return znp.einsum(equation, *operands)
