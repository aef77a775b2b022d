"""Embeddings: rows of a table, and sums, means or maxima of bags of them."""

from __future__ import annotations

import numpy as np

import zenith.numpy as znp
from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.nn.rounding import rounded_once
from zenith.numpy.operands import dims_of, require
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b

__all__ = ["embedding", "embedding_bag"]

MODES = ("sum", "mean", "max")


def embedding(weight: ArrayLike, indices: ArrayLike, padding_idx: int | None = None) -> Array:
    """The rows of a table ``[n, d]`` at integer indices of any shape: ``[..., d]``.

    The row ``padding_idx`` gets no gradient. An index of no row, such as -1, is an OutOfBoundsError.

    >>> embedding([[1.0, 2.0], [3.0, 4.0]], [1, 1, 0])
    array([[3., 4.],
           [3., 4.],
           [1., 2.]])
    """
    indices, table = znp.astype(znp.asarray(indices), np.int64), znp.asarray(weight)
    rows = b.take(table, indices, axis=0)
    if padding_idx is None:
        return rows
    padding_idx = padding_idx + table.shape[0] if padding_idx < 0 else padding_idx
    return znp.where(znp.expand_dims(indices == padding_idx, -1), b.stop_gradient(rows), rows)


@rounded_once
def embedding_bag(
    weight: ArrayLike, indices: ArrayLike, offsets: ArrayLike | None = None, mode: str = "mean",
    per_sample_weights: ArrayLike | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Array:  # fmt: skip
    """The sum, mean or maximum of the rows of each bag, as ``torch.nn.functional.embedding_bag``: ``[bags, d]``.

    Parameters
    ----------
    weight: a table ``[n, d]``.
    indices: integers ``[bags, size]``, or ``[count]`` with ``offsets``, where each bag begins, in ascending order.
    mode: ``"sum"``, ``"mean"`` or ``"max"``; an empty bag gives 0.
    per_sample_weights: numbers of the shape of ``indices``, with which rows are multiplied before they are added.
    include_last_offset: whether ``offsets`` also says where the last bag ends.
    padding_idx: a row that counts nowhere.

    Raises ArgumentError and ShapeError for other modes and shapes.

    >>> embedding_bag([[1.0], [2.0], [4.0]], [0, 1, 2], [0, 2], mode="sum")
    array([[3.],
           [4.]])
    """
    if mode not in MODES:
        raise ArgumentError(f"embedding_bag has no mode {mode!r}", where=user_line(), fix="use sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError("weights of samples are for sums", where=user_line(), fix='use mode="sum"')
    indices = znp.astype(znp.asarray(indices), np.int64)
    if indices.ndim != (2 if offsets is None else 1):
        raise ShapeError("embedding_bag needs indices of one axis with offsets, or of two without", where=user_line(),
                         fix="give offsets, or a bag a row")  # fmt: skip
    bags, counts = _bags(indices, offsets, include_last_offset)
    flat = znp.reshape(indices, (-1,))
    if padding_idx is not None and padding_idx < 0:
        padding_idx = padding_idx + znp.asarray(weight).shape[0]
    present = None if padding_idx is None else flat != padding_idx
    if include_last_offset and offsets is not None:
        inside = znp.arange(flat.shape[0]) < znp.asarray(offsets)[-1]
        present = inside if present is None else present & inside
    rows = embedding(weight, flat, padding_idx)
    if per_sample_weights is not None:
        rows = rows * znp.reshape(znp.asarray(per_sample_weights), (-1, 1))
    return _largest(rows, bags, counts, present) if mode == "max" else _sums(rows, bags, counts, present, mode)


def _bags(indices: Array, offsets: ArrayLike | None, include_last: bool) -> tuple[Array, Array]:
    """The bag number of each index, flattened, and how many bags there are."""
    if offsets is None:
        number = znp.expand_dims(znp.arange(indices.shape[0]), 1)
        return znp.reshape(znp.broadcast_to(number, indices.shape), (-1,)), indices.shape[0]
    begins = znp.astype(znp.asarray(offsets), np.int64)
    begins = begins[:-1] if include_last else begins
    if begins.ndim != 1:
        raise ShapeError("embedding_bag needs offsets of one axis", where=user_line(),
                         fix="give the position at which each bag begins")  # fmt: skip
    require(dims_of(begins)[0], ">", 0, "embedding_bag needs at least one bag")
    return znp.searchsorted(begins, znp.arange(indices.shape[0]), side="right") - 1, begins.shape[0]


def _sums(rows: Array, bags: Array, count: Array, present: Array | None, mode: str) -> Array:
    rows = rows if present is None else znp.where(znp.expand_dims(present, 1), rows, 0)
    sums = b.scatter_add(znp.zeros((count, rows.shape[1]), rows.dtype), rows, *_targets(rows, bags))
    if mode == "sum":
        return sums
    ones = znp.ones(bags.shape, rows.dtype) if present is None else znp.astype(present, rows.dtype)
    sizes = b.scatter_add(znp.zeros((count,), rows.dtype), ones, bags)
    return sums / znp.expand_dims(znp.maximum(sizes, 1), 1)


def _largest(rows: Array, bags: Array, count: Array, present: Array | None) -> Array:
    rows = rows if present is None else znp.where(znp.expand_dims(present, 1), rows, -np.inf)
    found = b.scatter_max(znp.full((count, rows.shape[1]), -np.inf, rows.dtype), rows, *_targets(rows, bags))
    there = znp.ones(bags.shape, np.int64) if present is None else znp.astype(present, np.int64)
    sizes = b.scatter_add(znp.zeros((count,), np.int64), there, bags)
    return znp.where(znp.expand_dims(sizes, 1) == 0, 0, found)


def _targets(rows: Array, bags: Array) -> tuple[Array, Array]:
    """The row and the column that each element of ``rows`` is scattered to."""
    columns = znp.broadcast_to(znp.arange(rows.shape[1]), rows.shape)
    return znp.broadcast_to(znp.expand_dims(bags, 1), rows.shape), columns
