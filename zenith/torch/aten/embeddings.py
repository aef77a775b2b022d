"""Rows of tables, and bags of them."""

from __future__ import annotations

import numpy as np
import torch

import zenith.numpy as znp
from zenith import nn
from zenith.errors import UnsupportedError
from zenith.nn.embeddings import MODES
from zenith.numpy.typing import Array, Size
from zenith.torch.aten.rules import Context, numpy_dtype, rule, to
from zenith.trace.bind import b
from zenith.transforms import custom_jvp


@rule("embedding")
def _embedding(
    c: Context, weight: Array, indices: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False, *_: object
) -> Array:
    weight = _by_frequency(weight, indices) if scale_grad_by_freq else weight
    return nn.embedding(weight, indices, padding_idx if padding_idx >= 0 else None)


@custom_jvp
def _by_frequency(weight: Array, indices: Array) -> Array:
    """A table; the gradient of each row is divided by how often indices name it."""
    return weight


@_by_frequency.defjvp
def _(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (weight, indices), (tangent, _) = primals, tangents
    flat = znp.astype(znp.reshape(indices, (-1,)), np.int64)
    ones = znp.ones(flat.shape, dtype=weight.dtype)
    often = b.scatter_add(znp.zeros((weight.shape[0],), dtype=weight.dtype), ones, flat)
    return weight, tangent / znp.expand_dims(znp.maximum(often, 1), 1)


@rule("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    c: Context, weight: Array, indices: Array, offsets: Array, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Array | None = None, include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> tuple[Array, ...]:  # fmt: skip
    """The bags, then the number of each index's bag, how many indices count in each, and where maxima come from."""
    padding_idx = -1 if padding_idx is None else padding_idx
    weight = _by_frequency(weight, indices) if scale_grad_by_freq else weight
    bags = nn.embedding_bag(weight, indices, offsets, MODES[mode], per_sample_weights, include_last_offset,
                            None if padding_idx < 0 else padding_idx)  # fmt: skip
    begins = offsets[:-1] if include_last_offset else offsets
    offset2bag, count = _bags(indices, begins), begins.shape[0]
    counted = znp.astype(indices != padding_idx, np.int64)
    sizes = b.scatter_add(znp.zeros((count,), dtype=np.int64), counted, offset2bag)
    rows = znp.take(weight, indices, axis=0)
    sources = _sources(rows, offset2bag, indices, bags, counted) if MODES[mode] == "max" else sizes
    found = (offset2bag, sizes, sources)
    return (bags, *(_like(f, example) for f, example in zip(found, c.value[1:], strict=True)))


def _bags(indices: Array, begins: Array) -> Array:
    """The number of the bag of each index."""
    return znp.searchsorted(znp.astype(begins, np.int64), znp.arange(indices.shape[0]), side="right") - 1


def _sources(rows: Array, offset2bag: Array, indices: Array, bags: Array, counted: Array) -> Array:
    """For each column of each bag the index of the first row that has its maximum, 0 in empty bags."""
    number = znp.expand_dims(znp.arange(rows.shape[0]), 1)
    columns = znp.broadcast_to(znp.arange(rows.shape[1]), rows.shape)
    largest = (rows == znp.take(bags, offset2bag, axis=0)) & (znp.expand_dims(counted, 1) != 0)
    last = np.iinfo(np.int64).max
    first = b.scatter_min(znp.full(bags.shape, last, dtype=np.int64), znp.where(largest, number, last),
                          znp.broadcast_to(znp.expand_dims(offset2bag, 1), rows.shape), columns)  # fmt: skip
    return znp.where(first == last, 0, znp.take(indices, znp.where(first == last, 0, first)))


def _like(found: Array, example: torch.Tensor) -> Array:
    """A result in its example's type, and without elements where PyTorch stores nothing."""
    found = to(found, numpy_dtype(example.dtype))
    empty = found.ndim == 1 and isinstance(example.shape[0], int) and example.shape[0] == 0
    return found[:0] if empty else found


@rule("_embedding_bag_backward")
def _embedding_bag_backward(c: Context, grad: Array, indices: Array, offsets: Array, offset2bag: Array, sizes: Array,
                            sources: Array, num_weights: Size, scale_grad_by_freq: bool, mode: int, sparse: bool,
                            per_sample_weights: Array | None, padding_idx: int = -1) -> Array:  # fmt: skip
    """The table's gradient: each bag's goes to the rows that it reduces, in shares for a mean."""
    if sparse:
        raise UnsupportedError("gradients that are sparse tensors are not computed")
    zeros = znp.zeros((num_weights, grad.shape[1]), dtype=grad.dtype)
    offset2bag = _bags(indices, offsets)
    counted = indices != padding_idx
    sizes = b.scatter_add(znp.zeros((grad.shape[0],), dtype=np.int64), znp.astype(counted, np.int64), offset2bag)
    if MODES[mode] == "max":
        updates = znp.where(znp.expand_dims(sizes, 1) != 0, grad, 0)
        columns = znp.broadcast_to(znp.arange(grad.shape[1]), grad.shape)
        return b.scatter_add(zeros, updates, znp.astype(sources, np.int64), columns)
    share: Array = znp.astype(counted, grad.dtype)
    if MODES[mode] == "mean":
        share = share / to(znp.take(znp.maximum(sizes, 1), offset2bag), grad.dtype)
    if scale_grad_by_freq:
        ones = znp.ones(indices.shape, dtype=grad.dtype)
        often = b.scatter_add(znp.zeros((num_weights,), dtype=grad.dtype), ones, indices)
        share = share / znp.take(often, indices)
    if per_sample_weights is not None:
        share = share * per_sample_weights
    return b.scatter_add(zeros, znp.take(grad, offset2bag, axis=0) * znp.expand_dims(share, 1), indices)


@rule("_embedding_bag_per_sample_weights_backward")
def _weights_of_samples_backward(c: Context, grad: Array, weight: Array, indices: Array, offsets: Array,
                                 offset2bag: Array, mode: int, padding_idx: int = -1) -> Array:  # fmt: skip
    """What each row adds to its bag along the gradient."""
    along = znp.take(grad, _bags(indices, offsets), axis=0) * znp.take(weight, indices, axis=0)
    return znp.where(indices == padding_idx, 0, znp.sum(along, axis=1, dtype=grad.dtype))
