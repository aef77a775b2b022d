"""Complex numbers: real and imaginary parts, angles, and tests for them.

A real array passes through: its real part is itself, its imaginary part is zeros. A complex array that is cast to a
real type loses its imaginary parts, with NumPy's ``ComplexWarning``, when the program is traced.
"""

from __future__ import annotations

import numpy as np

from zenith.ir.types import kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy.broadcasting import spread
from zenith.numpy.creation import zeros_like
from zenith.numpy.operands import BOOL, as_array, dims_of
from zenith.numpy.operands import lift as lifted
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.memory import NUMBER
from zenith.trace.tracer import Tracer

__all__ = ["angle", "imag", "iscomplex", "iscomplexobj", "isreal", "isrealobj", "real"]


def _is_complex(x: Array) -> bool:
    return kind_of(x.dtype) == "c"


@implements(np.real, gives="same")
def real(val: ArrayLike) -> Array:
    """The real part, a view; of a real array the array itself."""
    x = as_array(val)
    return b.real(x) if _is_complex(x) else x


@implements(np.imag, gives="same")
def imag(val: ArrayLike) -> Array:
    """The imaginary part, a view; zeros for a real array, which cannot be written."""
    x = as_array(val)
    if _is_complex(x):
        return b.imag(x)
    zeros = zeros_like(x)
    if not isinstance(zeros, Tracer):
        return zeros
    boxed = not isinstance(x, Tracer) or x.memory.access != NUMBER
    return zeros.renewed(boxed=boxed, read_only=True)


@implements(np.angle)
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The angle from the positive real axis, counterclockwise, in radians (or degrees) from -pi to pi.

    >>> angle(np.array([1.0, 1j, -1.0]), deg=True)
    array([  0.,  90., 180.])
    """
    x = as_array(z)
    found = ew.arctan2(b.imag(x), b.real(x)) if _is_complex(x) else ew.arctan2(0, x)
    return ew.rad2deg(found) if deg else found


@implements(np.iscomplex)
def iscomplex(x: ArrayLike) -> Array:
    """Whether elements have an imaginary part that is not 0."""
    x = as_array(x)
    return ew.not_equal(b.imag(x), 0.0) if _is_complex(x) else _everywhere(x, False)


@implements(np.isreal)
def isreal(x: ArrayLike) -> Array:
    """Whether elements have no imaginary part, or one that is 0."""
    x = as_array(x)
    return ew.equal(b.imag(x), 0.0) if _is_complex(x) else _everywhere(x, True)


def _everywhere(x: Array, answer: bool) -> Array:
    return spread(lifted(np.asarray(answer, BOOL)), dims_of(x))


@implements(np.iscomplexobj)
def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the element type is complex."""
    return _is_complex(as_array(x))


@implements(np.isrealobj)
def isrealobj(x: ArrayLike) -> bool:
    """Whether the element type is not complex."""
    return not iscomplexobj(x)
