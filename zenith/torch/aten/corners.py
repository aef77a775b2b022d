"""PyTorch's derivatives where they are a matter of convention: at zeros, ties, equal rows and ends of domains.

What follows there from the primitives of a rule is NumPy's and JAX's convention, or nan, where the infinite slope of a
root meets a zero. A rule for which PyTorch has another one computes its values as usual, and gets its derivative here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zenith.numpy as znp
from zenith.ir.types import kind_of
from zenith.numpy.typing import Array
from zenith.transforms import custom_jvp

Function = Callable[..., Any]


def with_slopes(function: Function, slopes: Callable[..., tuple[Array, ...]]) -> Function:
    """An elementwise function; ``slopes(result, *operands)`` are its derivatives by each operand."""
    computed = custom_jvp(function)

    @computed.defjvp
    def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
        found = function(*primals)
        first, *others = (s * t for s, t in zip(slopes(found, *primals), tangents, strict=True))
        return found, sum(others, first)

    return computed


def reduction(function: Function, slopes: Function, axes: Sequence[int], keepdims: bool) -> Function:
    """A function that reduces an array over axes, which stay with size 1, and are then removed unless ``keepdims``.

    ``slopes(result, x)`` is its derivative by each element; of complex elements the result is real.
    """
    axes = tuple(axes)

    def reduced(x: Array) -> Array:
        found = function(x)
        return found if keepdims else znp.squeeze(found, axis=axes)

    computed = custom_jvp(reduced)

    @computed.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        (x,), (tangent,) = primals, tangents
        found = function(x)
        tangent = _product(slopes(found, x), tangent)
        total = znp.sum(tangent, axis=axes, keepdims=keepdims, dtype=found.dtype)
        return (found if keepdims else znp.squeeze(found, axis=axes)), total

    return computed


def _product(slope: Array, tangent: Array) -> Array:
    """The tangent of a real result by that of a real or complex operand."""
    return znp.real(znp.conjugate(slope) * tangent) if kind_of(slope.dtype) == "c" else slope * tangent


def of_element(function: Function, axis: int) -> Function:
    """A function that finds an element in each row along an axis, which stays with size 1, and its index.

    The result depends on it alone. In the backward pass each element compares its index, so that gradients are
    elementwise.
    """
    computed = custom_jvp(function)

    @computed.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        (x,), (tangent,) = primals, tangents
        value, indices = function(x)
        number = znp.reshape(znp.arange(x.shape[axis]), (-1,) + (1,) * (x.ndim - 1 - axis))
        own = znp.where(number == indices, tangent, 0)
        return (value, indices), (znp.sum(own, axis=axis, keepdims=True, dtype=value.dtype), indices)

    return computed


def shared(function: Function) -> Function:
    """A function that finds one element of an array: all that are equal to it share its derivative evenly."""

    def slopes(value: Array, x: Array) -> Array:
        equal = znp.astype((x == value) | ((x != x) & (value != value)), x.dtype)
        return equal / znp.sum(equal, dtype=x.dtype)

    def computed(x: Array) -> Array:
        if kind_of(x.dtype) != "f":
            return function(x)
        alone = (1,) * x.ndim
        return reduction(lambda x: znp.reshape(function(x), alone), slopes, range(x.ndim), False)(x)

    return computed


def _steady(zero: Array, slope: Callable[[Array], Array], x: Array) -> Array:
    """A slope that divides by x, 0 where ``zero`` says that x is."""
    return znp.where(zero, 0, slope(znp.where(zero, 1, x)))


def _angle_slopes(angle: Array, y: Array, x: Array) -> tuple[Array, Array]:
    """The derivatives of the angle of (y, x), 0 at the origin."""
    square = x * x + y * y
    return _steady(square == 0, lambda s: x / s, square), _steady(square == 0, lambda s: -y / s, square)


# The square root, whose derivative at 0 is 0.
root = with_slopes(znp.sqrt, lambda y, x: (_steady(y == 0, lambda y: 0.5 / y, y),))
_angle = with_slopes(znp.arctan2, _angle_slopes)
# -x log(x), 0 at 0 with an infinite slope.
entropy = with_slopes(znp.special.entr, lambda y, x: (-1 - znp.log(x),))


def angle(y: Array, x: Array) -> Array:
    """The angle of the point (y, x), whose derivatives at the origin are 0."""
    return _angle(*znp.broadcast_arrays(y, x))


def fmax(x: Array, y: Array) -> Array:
    """The larger, the first of equal ones; a nan counts as missing."""
    return znp.where((x >= y) | (y != y), x, y)


def fmin(x: Array, y: Array) -> Array:
    """The smaller, the first of equal ones; a nan counts as missing."""
    return znp.where((x <= y) | (y != y), x, y)
