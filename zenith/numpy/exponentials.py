"""Sums of exponentials along axes, and each one's share in them: ``logsumexp``, ``softmax`` and ``log_softmax``.

All are computed relative to the largest element, so that nothing overflows; derivatives take it as constant, since no
result depends on it.
"""

from __future__ import annotations

from typing import Any

from zenith.ir.dims import dim
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.broadcasting import align
from zenith.numpy.conditionals import where
from zenith.numpy.operands import as_array, convert, dims_of, normal_axes, result_dtype
from zenith.numpy.typing import Array, Axis
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = ["log_softmax", "logsumexp", "softmax"]


@implements(module="special")
def softmax(x: Array, axis: Axis = None) -> Array:
    """``exp(x) / sum(exp(x))`` along axes, or over all elements.

    >>> softmax([1.0, 1.0, 1.0, 1.0])
    array([0.25, 0.25, 0.25, 0.25])
    """
    powers = ew.exp(_below_largest("softmax", _floating("softmax", x), axis))
    return ew.divide(powers, reductions.sum(powers, axis, keepdims=True))


@implements(module="special")
def log_softmax(x: Array, axis: Axis = None) -> Array:
    """The logarithm of :func:`softmax`, exact where that is nearly 0.

    >>> log_softmax([1.0, 1.0]).round(4)
    array([-0.6931, -0.6931])
    """
    shifted = _below_largest("log_softmax", _floating("log_softmax", x), axis)
    return ew.subtract(shifted, ew.log(reductions.sum(ew.exp(shifted), axis, keepdims=True)))


@implements(module="special")
def logsumexp(
    a: Array, axis: Axis = None, b: Array | None = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """``log(sum(exp(a)))`` along axes, or over all elements; minus infinity where all elements are.

    Parameters
    ----------
    b: factors of the exponentials; where the sum with them is negative, the result is nan, unless
    return_sign: the result is a pair of the logarithm of the sum's absolute value and the sum's sign.

    >>> logsumexp([1000.0, 1000.0]).round(4)
    np.float64(1000.6931)
    >>> logsumexp([0.0, 0.0], b=[1.0, -3.0], return_sign=True)[1]
    np.float64(-1.0)
    """
    x, factors = _floating("logsumexp", a), None
    if b is not None:
        x, factors = align("logsumexp", [convert(v, result_dtype("logsumexp", (x, as_array(b)))) for v in (x, b)])
        counted = where(ew.equal(factors, 0), -float("inf"), x)
    largest = _largest("logsumexp", x if factors is None else counted, axis)
    shift = where(ew.isfinite(largest), largest, 0)
    if factors is not None:  # a factor of 0 has a slope where its exponential is a number
        x = where(ew.isfinite(ew.exp(ew.subtract(x, shift))), x, counted)
    powers = ew.exp(ew.subtract(x, shift))
    total = reductions.sum(powers if factors is None else ew.multiply(powers, factors), axis, keepdims=True)
    result = ew.add(ew.log(ew.absolute(total) if return_sign else total), shift)
    found = [_without_axes(value, x, axis, keepdims) for value in (result, ew.sign(total))]
    return tuple(found) if return_sign else found[0]


def _floating(name: str, x: Array) -> Array:
    """The array in the floating-point type in which NumPy computes of it."""
    return convert(x, result_dtype(name, (as_array(x), 1.0)))


def _below_largest(name: str, x: Array, axis: Axis) -> Array:
    """x less its largest element along axes, which may be empty."""
    return ew.subtract(x, _largest(name, x, axis))


def _largest(name: str, x: Array, axis: Axis) -> Array:
    axes = normal_axes(name, axis, x.ndim)
    found = b.stop_gradient(b.reduce_max(x, axes=axes) if axes else x)
    return (
        b.reshape(found, shape=tuple(dim(1) if a in axes else n for a, n in enumerate(dims_of(x)))) if axes else found
    )


def _without_axes(reduced: Array, x: Array, axis: Axis, keepdims: bool) -> Array:
    """A reduced array without the axes of size 1 that the reduction left, unless they are wanted."""
    axes = normal_axes("logsumexp", axis, x.ndim)
    if keepdims or not axes:
        return reduced
    return b.reshape(reduced, shape=tuple(n for a, n in enumerate(dims_of(x)) if a not in axes))
