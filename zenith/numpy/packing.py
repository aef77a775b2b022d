"""Bits packed into bytes, and unpacked: shifts and sums, eight elements a byte."""

from __future__ import annotations

import numpy as np

from zenith.errors import ArgumentError, DTypeError, user_line
from zenith.ir.dims import dim, product
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.joining import cut
from zenith.numpy.operands import ask, compute_array, convert, dims_of, normal_axis
from zenith.numpy.shaping import moveaxis
from zenith.numpy.typing import Array, ArrayLike, Axis
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import size_dim

__all__ = ["packbits", "unpackbits"]

BYTE = np.dtype(np.uint8)


def _rows(name: str, a: ArrayLike, axis: Axis, bitorder: str) -> tuple[Array, int, Array]:
    """The array with the axis moved to the end, that axis, and by how much each bit of a byte is shifted."""
    if bitorder not in ("big", "little"):
        raise ArgumentError(f"{name}: {bitorder!r} is no bitorder", where=user_line(),
                            fix="use 'big' or 'little'")  # fmt: skip
    x = compute_array(name, a)
    if axis is None:
        x, axis = b.reshape(x, shape=(product(dims_of(x)),)), 0
    at = normal_axis(name, axis, x.ndim)
    shifts = np.arange(8, dtype=BYTE)
    return moveaxis(x, at, -1), at, shifts[::-1].copy() if bitorder == "big" else shifts


@implements(np.packbits)
def packbits(a: ArrayLike, /, axis: Axis = None, bitorder: str = "big") -> Array:
    """Eight elements along an axis as the bits of a byte, set for all but 0 and False; zeros fill the last byte.

    ``axis=None`` flattens first. The first element is the highest bit, for ``bitorder="little"`` the lowest. Raises
    DTypeError for what are no integers or bools.

    >>> packbits([1, 0, 0, 0, 0, 0, 1, 1, 1])
    array([131, 128], dtype=uint8)
    """
    x, at, shifts = _rows("packbits", a, axis, bitorder)
    if x.dtype.kind not in "biu":
        raise DTypeError(f"packbits takes integers and bools, not {x.dtype}", where=user_line(),
                         fix="compare first: x != 0")  # fmt: skip
    *lead, size = dims_of(x)
    count = (size + 7) // 8
    bits = convert(ew.not_equal(x, 0), BYTE)
    none = (0,) * len(lead)
    bits = b.pad(bits, np.zeros((), BYTE), low=(*none, 0), high=(*none, count * 8 - size), interior=(*none, 0))
    terms = ew.left_shift(b.reshape(bits, shape=(*lead, count, dim(8))), shifts)
    return moveaxis(convert(reductions.sum(terms, -1, BYTE), BYTE), -1, at)


@implements(np.unpackbits)
def unpackbits(a: ArrayLike, /, axis: Axis = None, count: ArrayLike | None = None, bitorder: str = "big") -> Array:
    """The bits of bytes as eight elements 0 or 1 along an axis, cut or padded with zeros to ``count``.

    ``axis=None`` flattens first; a negative ``count`` leaves out so many at the end. Raises DTypeError for all element
    types but uint8, ArgumentError for more to be left out than there are.

    >>> unpackbits(np.array([131], np.uint8), count=3)
    array([1, 0, 0], dtype=uint8)
    """
    x, at, shifts = _rows("unpackbits", a, axis, bitorder)
    if x.dtype != BYTE:
        raise DTypeError(f"unpackbits takes uint8, not {x.dtype}", where=user_line(), fix="cast it: x.astype('uint8')")
    *lead, size = dims_of(x)
    whole, none = size * 8, (0,) * len(lead)
    one = b.reshape(x, shape=(*lead, size, dim(1)))
    bits = b.reshape(ew.bitwise_and(ew.right_shift(one, shifts), np.uint8(1)), shape=(*lead, whole))
    if count is not None:
        wanted = size_dim(count, "unpackbits: count")
        wanted = whole + wanted if (wanted.static or 0) < 0 else wanted
        if ask(wanted, "<", 0):
            raise ArgumentError(f"unpackbits: {count} leaves out more than the {whole} bits", where=user_line(),
                                fix="leave out fewer")  # fmt: skip
        if ask(wanted, "<=", whole):
            bits = cut(bits, len(lead), 0, wanted)
        else:
            high = (*none, wanted - whole)
            bits = b.pad(bits, np.zeros((), BYTE), low=(*none, 0), high=high, interior=(*none, 0))
    return moveaxis(bits, -1, at)
