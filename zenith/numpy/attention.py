"""Attention, which NumPy does not have, and which every transformer is built on."""

from __future__ import annotations

import math

from zenith.errors import DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.types import kind_of
from zenith.numpy.broadcasting import broadcast_dims, spread
from zenith.numpy.operands import as_array, ask, convert, dims_of, require, result_dtype, shape_text
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b

__all__ = ["attention"]


def attention(
    q: ArrayLike, k: ArrayLike, v: ArrayLike, mask: ArrayLike | None = None, *, causal: bool = False,
    scale: float | None = None,
) -> Array:  # fmt: skip
    """``softmax(q @ k.T * scale + mask) @ v``, without the scores in memory.

    Parameters
    ----------
    q, k, v: queries ``[..., S, D]``, keys ``[..., T, D]``, values ``[..., T, E]`` of one floating-point type. Leading
        axes are broadcast; where the last of them (heads) has fewer keys than queries, heads share keys in groups.
    mask: bool, true where a query sees a key, or a number to be added to its score; broadcast to ``[..., S, T]``.
    causal: query i sees the keys 0 ... i only.
    scale: what products are multiplied with; ``1 / sqrt(D)`` when None.

    Returns ``[..., S, E]``; zeros for a query that sees no key. Raises ShapeError and DTypeError.

    >>> import numpy as np
    >>> q, k, v = np.zeros((1, 2)), np.ones((3, 2)), np.array([[1.0], [2.0], [6.0]])
    >>> attention(q, k, v)
    array([[3.]])
    >>> attention(q, k, v, mask=np.array([True, True, False]))
    array([[1.5]])
    """
    q, k, v = _operands(q, k, v)
    factor = _factor(q.shape[-1]) if scale is None else float(scale)
    groups = _groups(q, k)
    heads = dims_of(q)[:-2]
    if groups is not None:
        q, k, v = _split_heads(q, groups), _split_heads(k, (groups[0], dim(1))), _split_heads(v, (groups[0], dim(1)))
    lead = broadcast_dims("attention", [dims_of(x)[:-2] for x in (q, k, v)])
    q, k, v = (spread(x, (*lead, *dims_of(x)[-2:])) for x in (q, k, v))
    masks = [] if mask is None else [_aligned(mask, q, k, heads, groups)]
    kind = "none" if mask is None else "bool" if masks[0].dtype.kind == "b" else "add"
    result, _ = b.attention(q, k, v, *masks, scale=factor, causal=bool(causal), mask=kind, empty=0.0)
    return result if groups is None else b.reshape(result, shape=(*lead[:-2], heads[-1], *dims_of(result)[-2:]))


def _operands(q: ArrayLike, k: ArrayLike, v: ArrayLike) -> list[Array]:
    """Queries, keys and values in one element type, with sizes that fit."""
    dtype = result_dtype("attention", (q, k, v))
    if kind_of(dtype) != "f":
        raise DTypeError("attention needs floating-point arrays", where=user_line(), fix="cast q, k and v first")
    q, k, v = (convert(x, dtype) for x in (q, k, v))
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ShapeError(
            "attention needs queries, keys and values of at least two axes",
            where=user_line(),
            fix="add an axis for one query, q[None]",
        )
    for what, x, y, axis in (("columns of queries and keys", q, k, -1), ("numbers of keys and values", k, v, -2)):
        text = f"attention: the {what}, {shape_text(dims_of(x))} and {shape_text(dims_of(y))}, must be equal"
        require(dims_of(x)[axis], "==", dims_of(y)[axis], text)
    return [q, k, v]


def _factor(columns: Array) -> float:
    return 1.0 / math.sqrt(columns) if columns else 1.0


def _groups(q: Array, k: Array) -> tuple[Dim, Dim] | None:
    """The number of heads with keys of their own and how many share one; None when none share (or axes broadcast)."""
    if min(q.ndim, k.ndim) < 3:
        return None
    heads, own = dims_of(q)[-3], dims_of(k)[-3]
    if heads == 1 or own == 1 or ask(heads, "==", own) or ask(heads, "==", 1):
        return None
    require(heads % own, "==", 0, f"attention: {heads} heads cannot share the keys of {own}")
    return own, heads // own


def _split_heads(x: Array, groups: tuple[Dim, Dim]) -> Array:
    shape = dims_of(x)
    return b.reshape(x, shape=(*shape[:-3], *groups, *shape[-2:]))


def _aligned(mask: ArrayLike, q: Array, k: Array, heads: tuple[Dim, ...], groups: tuple[Dim, Dim] | None) -> Array:
    """The mask for every query and key, bool or in the element type of the scores."""
    mask = as_array(mask)
    mask = mask if mask.dtype.kind == "b" else convert(mask, q.dtype)
    sizes = (dims_of(q)[-2], dims_of(k)[-2])
    lead = dims_of(q)[:-2] if groups is None else (*dims_of(q)[:-4], heads[-1])
    shape = broadcast_dims("attention mask", [dims_of(mask), (*lead, *sizes)])
    whole = spread(mask, shape)
    return whole if groups is None else _split_heads(whole, groups)
