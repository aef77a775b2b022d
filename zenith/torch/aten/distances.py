"""Distances between rows: of every pair of two sets, of all pairs of one, of two tensors."""

from __future__ import annotations

import math

import zenith.numpy as znp
from zenith.numpy.typing import Array
from zenith.torch.aten.corners import reduction, root
from zenith.torch.aten.norms import vector_norm
from zenith.torch.aten.rules import Context, rounded_once, rule
from zenith.trace.bind import b


@rule("_cdist_forward")
def _cdist(c: Context, x: Array, y: Array, p: float, compute_mode: int | None = None) -> Array:
    """The norm of the difference of every row of ``x`` and every row of ``y``; leading axes are broadcast."""
    return _length(znp.expand_dims(x, -2) - znp.expand_dims(y, -3), p)


@rule("_euclidean_dist")
@rounded_once
def _euclidean(c: Context, x: Array, y: Array) -> Array:
    """The Euclidean ones by a matrix product, as PyTorch has them of many rows; their derivative at equal rows is 0."""
    own, other = (znp.sum(a * a, axis=-1, keepdims=True) for a in (x, y))
    square = own + znp.matrix_transpose(other) - 2 * znp.matmul(x, znp.matrix_transpose(y))
    return root(znp.where(square < 0, 0, square))


@rule("_cdist_backward")
def _cdist_backward(c: Context, grad: Array, x: Array, y: Array, p: float, distances: Array) -> Array:
    """The gradient of the first set, summed over the axes along which that was broadcast; 0 between equal rows."""
    differences = znp.expand_dims(x, -2) - znp.expand_dims(y, -3)
    found = znp.sum(_slopes(differences, distances, p) * znp.expand_dims(grad, -1), axis=-2)
    found = znp.sum(found, axis=tuple(range(found.ndim - x.ndim)))
    spread = tuple(a for a, n in enumerate(c.arguments[1].shape) if isinstance(n, int) and n == 1 and a < x.ndim - 2)
    return znp.sum(found, axis=spread, keepdims=True) if spread else found


def _slopes(x: Array, length: Array, p: float) -> Array:
    """The derivative of norms by each of the elements along the last axis, 0 where there is none."""
    length = znp.expand_dims(length, -1)
    if p == 0:
        return znp.zeros_like(x)
    if p == 1:
        return znp.sign(x)
    if math.isinf(p):
        return znp.where(znp.abs(x) == length, znp.sign(x), 0)
    zero = (length == 0) | (x == 0) if p < 2 else length == 0
    size, length = (znp.where(zero, 1, a) for a in (znp.abs(x), length))
    return znp.where(zero, 0, znp.sign(x) * (size / length if p == 2 else (size / length) ** (p - 1)))


@rule("_pdist_forward")
def _pdist(c: Context, x: Array, p: float = 2.0) -> Array:
    """The same of every pair of rows ``i < j``, in order of ``i`` and then ``j``."""
    first, second = _pairs(x)
    return _length(znp.take(x, first, axis=0) - znp.take(x, second, axis=0), p)


@rule("_pdist_backward")
def _pdist_backward(c: Context, grad: Array, x: Array, p: float, distances: Array) -> Array:
    first, second = _pairs(x)
    differences = znp.take(x, first, axis=0) - znp.take(x, second, axis=0)
    of_rows = _slopes(differences, distances, p) * znp.expand_dims(grad, -1)
    return b.scatter_add(b.scatter_add(znp.zeros_like(x), of_rows, first), -of_rows, second)


def _pairs(x: Array) -> tuple[Array, Array]:
    """The numbers of the first and the second row of each pair."""
    rows = x.shape[0]
    before = znp.arange(rows)
    starts = before * rows - before * (before + 1) // 2  # how many pairs come before those of row i
    pair = znp.arange(rows * (rows - 1) // 2)
    first = znp.searchsorted(starts[: rows - 1], pair, side="right") - 1
    return first, pair - znp.take(starts, first) + first + 1


@rule("dist")
@rounded_once
def _dist(c: Context, x: Array, y: Array, p: float = 2) -> Array:
    return vector_norm(c.cast(x) - c.cast(y), p)


def _length(x: Array, p: float) -> Array:
    """The norm along the last axis, 0 where that has no elements; its derivative is 0 where it is."""

    def length(x: Array) -> Array:
        if math.isinf(p) and p > 0:
            return znp.expand_dims(znp.maximum(b.reduce_max(znp.abs(x), axes=(x.ndim - 1,)), 0), -1)
        return znp.linalg.vector_norm(x, axis=-1, ord=p, keepdims=True)

    return reduction(length, lambda length, x: _slopes(x, length[..., 0], p), (x.ndim - 1,), False)(x)
