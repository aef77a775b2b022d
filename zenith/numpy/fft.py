"""Discrete Fourier transforms, as in ``numpy.fft``: over any axes, of real and complex arrays, of any sizes.

A compiled program calls pocketfft for each, from kernels; long rows it transforms in two steps of short ones. float32
and complex64 (and 16-bit floats) are computed in float32, everything else in float64. All transforms have derivatives.

>>> from zenith.numpy import fft
>>> fft.ifft(fft.fft([1.0, 2.0, 3.0])).real
array([1., 2., 3.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, user_line
from zenith.ir.dims import Dim, dim, maximum
from zenith.ir.ops.fourier import NORMS
from zenith.ir.types import float32, is_narrow, kind_of
from zenith.numpy import elementwise as ew
from zenith.numpy.absent import refuse_name
from zenith.numpy.conditionals import where
from zenith.numpy.creation import arange
from zenith.numpy.joining import roll
from zenith.numpy.operands import (
    FLOAT64,
    as_array,
    check_device,
    compute_array,
    convert,
    dims_of,
    normal_axes,
    normal_axis,
    require,
    user_shape,
)
from zenith.numpy.shaping import moveaxis
from zenith.numpy.typing import Array, ArrayLike, Axes, Axis, DTypeLike, Out, Size
from zenith.trace.bind import b
from zenith.trace.dispatch import implements
from zenith.trace.sizes import UserSize, size_dim

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


# --- over one axis ----------------------------------------------------------------------------------------------------


@implements(np.fft.fft, module="fft")
def fft(a: ArrayLike, n: Size | None = None, axis: int = -1, norm: str | None = None, out: Out = None) -> Array:
    """The transform over an axis, of ``n`` points: the first ones, or all with zeros after them.

    Parameters
    ----------
    a: real or complex. n: the number of points, by default the axis's; it may be a traced size. axis: which axis.
    norm: ``"backward"`` (the default), ``"ortho"`` or ``"forward"``: what divides by the number of points.

    >>> fft([1.0, 0.0, 0.0, 0.0])
    array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _transform("fft", a, (n,), (axis,), norm, inverse=False)


@implements(np.fft.ifft, module="fft")
def ifft(a: ArrayLike, n: Size | None = None, axis: int = -1, norm: str | None = None, out: Out = None) -> Array:
    """The inverse of :func:`fft`, with the same parameters.

    >>> ifft([4.0, 0.0, 0.0, 0.0])
    array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _transform("ifft", a, (n,), (axis,), norm, inverse=True)


@implements(np.fft.rfft, module="fft")
def rfft(a: ArrayLike, n: Size | None = None, axis: int = -1, norm: str | None = None, out: Out = None) -> Array:
    """The first ``n // 2 + 1`` elements of the transform of a real array; the others are their conjugates.

    Raises DTypeError for complex arrays.

    >>> rfft([1.0, 2.0, 3.0]).real
    array([ 6. , -1.5])
    """
    return _of_real("rfft", a, n, axis, _norm("rfft", norm))


@implements(np.fft.irfft, module="fft")
def irfft(a: ArrayLike, n: Size | None = None, axis: int = -1, norm: str | None = None, out: Out = None) -> Array:
    """The real array of ``n`` points whose transform begins with ``a``; by default an even number of points.

    >>> irfft(rfft([1.0, 2.0, 3.0]), 3)
    array([1., 2., 3.])
    """
    return _to_real("irfft", a, n, axis, _norm("irfft", norm))


@implements(np.fft.hfft, module="fft")
def hfft(a: ArrayLike, n: Size | None = None, axis: int = -1, norm: str | None = None, out: Out = None) -> Array:
    """The real transform of ``n`` points that begin with ``a`` and go on with conjugates.

    >>> hfft([1.0, 2.0, 3.0])
    array([ 8., -2.,  0., -2.])
    """
    return _to_real("hfft", ew.conjugate(compute_array("hfft", a)), n, axis, _other(_norm("hfft", norm)))


@implements(np.fft.ihfft, module="fft")
def ihfft(a: ArrayLike, n: Size | None = None, axis: int = -1, norm: str | None = None, out: Out = None) -> Array:
    """The inverse of :func:`hfft`: the first ``n // 2 + 1`` points of a real transform.

    >>> ihfft([8.0, -2.0, 0.0, -2.0]).real
    array([1., 2., 3.])
    """
    return ew.conjugate(_of_real("ihfft", a, n, axis, _other(_norm("ihfft", norm))))


# --- over several axes ------------------------------------------------------------------------------------------------


@implements(np.fft.fftn, module="fft")
def fftn(
    a: ArrayLike, s: Sequence[Size] | None = None, axes: Sequence[int] | None = None, norm: str | None = None,
    out: Out = None,
) -> Array:  # fmt: skip
    """The transform over several axes, by default all, of ``s`` points along each; -1 is the size of the axis.

    >>> fftn([[1.0, 0.0], [0.0, 0.0]]).real
    array([[1., 1.],
           [1., 1.]])
    """
    return _transform("fftn", a, *_sizes_and_axes("fftn", a, s, axes), norm, inverse=False)


@implements(np.fft.ifftn, module="fft")
def ifftn(
    a: ArrayLike, s: Sequence[Size] | None = None, axes: Sequence[int] | None = None, norm: str | None = None,
    out: Out = None,
) -> Array:  # fmt: skip
    """The inverse of :func:`fftn`, with the same parameters.

    >>> ifftn([[4.0, 0.0], [0.0, 0.0]]).real
    array([[1., 1.],
           [1., 1.]])
    """
    return _transform("ifftn", a, *_sizes_and_axes("ifftn", a, s, axes), norm, inverse=True)


@implements(np.fft.rfftn, module="fft")
def rfftn(
    a: ArrayLike, s: Sequence[Size] | None = None, axes: Sequence[int] | None = None, norm: str | None = None,
    out: Out = None,
) -> Array:  # fmt: skip
    """The transform of a real array over several axes: :func:`rfft` over the last of them, :func:`fft` over the others.

    >>> rfftn(np.ones((2, 2))).real
    array([[4., 0.],
           [0., 0.]])
    """
    sizes, axes = _sizes_and_axes("rfftn", a, s, axes)
    last = _of_real("rfftn", a, sizes[-1], axes[-1], _norm("rfftn", norm))
    return _transform("rfftn", last, sizes[:-1], axes[:-1], norm, inverse=False)


@implements(np.fft.irfftn, module="fft")
def irfftn(
    a: ArrayLike, s: Sequence[Size] | None = None, axes: Sequence[int] | None = None, norm: str | None = None,
    out: Out = None,
) -> Array:  # fmt: skip
    """The inverse of :func:`rfftn`; the last of the sizes ``s`` is by default even.

    >>> irfftn(rfftn(np.ones((2, 2))))
    array([[1., 1.],
           [1., 1.]])
    """
    sizes, axes = _sizes_and_axes("irfftn", a, s, axes)
    others = _transform("irfftn", a, sizes[:-1], axes[:-1], norm, inverse=True)
    return _to_real("irfftn", others, sizes[-1], axes[-1], _norm("irfftn", norm))


def _over_two(function: Callable[..., Array], numpy_function: Callable[..., object]) -> Callable[..., Array]:
    def over_two(
        a: ArrayLike, s: Sequence[Size] | None = None, axes: Sequence[int] | None = (-2, -1), norm: str | None = None,
        out: Out = None,
    ) -> Array:  # fmt: skip
        return function(a, s, axes, norm)

    over_two.__name__ = over_two.__qualname__ = numpy_function.__name__
    over_two.__doc__ = f"As :func:`{function.__name__}`, by default over the last two axes."
    return implements(numpy_function, module="fft")(over_two)


fft2 = _over_two(fftn, np.fft.fft2)
ifft2 = _over_two(ifftn, np.fft.ifft2)
rfft2 = _over_two(rfftn, np.fft.rfft2)
irfft2 = _over_two(irfftn, np.fft.irfft2)


# --- frequencies, and their order -------------------------------------------------------------------------------------


def fftfreq(n: UserSize, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """The frequencies of the elements of :func:`fft` of ``n`` points at a distance of ``d``: zero, positive, negative.

    >>> fftfreq(4)
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    number = arange(n)
    return _frequencies(where(ew.less(number, (n + 1) // 2), number, ew.subtract(number, n)), n, d, dtype, device)


def rfftfreq(n: UserSize, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None) -> Array:
    """The frequencies of the elements of :func:`rfft` of ``n`` points at a distance of ``d``.

    >>> rfftfreq(4)
    array([0.  , 0.25, 0.5 ])
    """
    return _frequencies(arange(n // 2 + 1), n, d, dtype, device)


def _frequencies(cycles: ArrayLike, n: UserSize, d: ArrayLike, dtype: DTypeLike | None, device: str | None) -> Array:
    """Cycles per ``n`` points as cycles per unit of distance."""
    check_device(device)
    require(size_dim(n, "n"), ">=", 1, "the frequencies of no points: there must be one or more")
    found = ew.multiply(convert(cycles, FLOAT64), ew.divide(1.0, ew.multiply(n, d)))
    return found if dtype is None else convert(found, np.dtype(dtype))


@implements(np.fft.fftshift, module="fft")
def fftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """Elements moved so that the one of frequency zero is in the middle.

    >>> fftshift(fftfreq(4))
    array([-0.5 , -0.25,  0.  ,  0.25])
    """
    return _shifted("fftshift", x, axes, lambda size: size // 2)


@implements(np.fft.ifftshift, module="fft")
def ifftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """The inverse of :func:`fftshift`.

    >>> ifftshift([-0.5 , -0.25,  0.  ,  0.25])
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return _shifted("ifftshift", x, axes, lambda size: -(size // 2))


def _shifted(name: str, x: ArrayLike, axes: Axes, by: Callable[[Dim], Dim]) -> Array:
    x = as_array(x)
    at = normal_axes(name, axes, x.ndim)
    return roll(x, user_shape(by(dims_of(x)[a]) for a in at), at)


# --- shared by all of them --------------------------------------------------------------------------------------------


def _operand(name: str, a: ArrayLike, axes: Sequence[object], real: bool = False) -> tuple[Array, list[int]]:
    """The array in a type that is computed in, and its axes counted from 0."""
    x = compute_array(name, a)
    kind = kind_of(x.dtype)
    if real and kind == "c":
        raise DTypeError(f"{name} takes real arrays, not {x.dtype}", where=user_line(), fix="use fft")
    if kind in "biu":
        x = convert(x, FLOAT64)
    elif is_narrow(x.dtype):
        x = convert(x, float32.numpy)
    return x, [normal_axis(name, axis, x.ndim) for axis in axes]


def _transform(
    name: str, a: ArrayLike, sizes: Sequence[Size | None], axes: Sequence[int], norm: str | None, inverse: bool
) -> Array:
    x, at = _operand(name, a, axes)
    rounds = [list(zip(at, sizes, strict=True))] if at else []
    if len(set(at)) < len(at):  # an axis that is named twice is cut and transformed twice, from the last to the first
        rounds = [[pair] for pair in reversed(rounds[0])]
    for pairs in rounds:
        for axis, size in pairs:
            x = _fitted(name, x, size, axis)
        x = b.fft(x, axes=tuple(axis for axis, _ in pairs), inverse=inverse, norm=_norm(name, norm))
    return x if at else convert(x, np.result_type(x.dtype, np.complex64))


def _of_real(name: str, a: ArrayLike, n: Size | None, axis: Axis, norm: str) -> Array:
    """The first half of a real array's transform over one axis."""
    x, (at,) = _operand(name, a, (axis,), real=True)
    return moveaxis(b.rfft(_fitted(name, moveaxis(x, at, -1), n, -1), norm=norm), -1, at)


def _to_real(name: str, a: ArrayLike, n: Size | None, axis: Axis, norm: str) -> Array:
    """The real array whose transform over one axis begins with an array."""
    x, (at,) = _operand(name, a, (axis,))
    x = moveaxis(convert(x, np.result_type(x.dtype, np.complex64)), at, -1)
    size = 2 * (dims_of(x)[-1] - 1) if n is None else size_dim(n, f"{name}: n")
    require(size, ">=", 1, f"{name}: there must be a point or more, not {size}")
    found = moveaxis(b.irfft(_fitted(name, x, size // 2 + 1, -1), size=size, norm=norm), -1, at)
    return convert(found, np.dtype(np.float16)) if compute_array(name, a).dtype == np.float16 else found


def _sizes_and_axes(
    name: str, a: ArrayLike, s: Sequence[Size | None] | None, axes: Sequence[int] | None
) -> tuple[list[Size | None], list[int]]:
    """A size or None for each axis to be transformed."""
    rank = compute_array(name, a).ndim
    if axes is None:
        axes = range(-rank if s is None else -len(s), 0)
    at = [normal_axis(name, axis, rank) for axis in axes]
    sizes = [None] * len(at) if s is None else list(s)
    if len(sizes) != len(at):
        raise ShapeError(f"{name}: {len(sizes)} sizes for {len(at)} axes", where=user_line(),
                         fix="give one size for each axis")  # fmt: skip
    own = user_shape(dims_of(compute_array(name, a)))
    repeated = len(set(at)) < len(at)  # an axis keeps its size from the beginning
    pairs = list(zip(sizes, at, strict=True))
    sizes = [own[axis] if _is_minus_one(n) or (n is None and repeated) else n for n, axis in pairs]
    if not at and name.startswith(("rfft", "irfft")):
        raise ShapeError(
            f"{name} needs an axis or more", where=user_line(), fix="say axes=, or give an array that has some"
        )
    return sizes, at


def _is_minus_one(n: Size | None) -> bool:
    return isinstance(n, (int, np.integer)) and n == -1


def _fitted(name: str, x: Array, n: Size | None, axis: int) -> Array:
    """The first ``n`` elements along an axis, or all with zeros after them."""
    shape, axis = list(dims_of(x)), axis % x.ndim
    had = shape[axis]
    size = had if n is None else size_dim(n, f"{name}: n")
    require(size, ">=", 1, f"{name}: there must be a point or more, not {size}")
    if size == had:
        return x
    missing = maximum(size - had, 0)
    none = (0,) * x.ndim
    if missing != dim(0):
        high = tuple(missing if a == axis else dim(0) for a in range(x.ndim))
        x = b.pad(x, np.zeros((), x.dtype), low=none, high=high, interior=none)
    shape[axis] = size
    return x if dims_of(x)[axis] == size else b.slice(x, start=none, stop=tuple(shape), step=(1,) * x.ndim)


def _norm(name: str, norm: str | None) -> str:
    if norm is None:
        return NORMS[0]
    if norm not in NORMS:
        raise ArgumentError(f"{name}: {norm!r} is no norm",
                            where=user_line(), fix=f"use one of {', '.join(map(repr, NORMS))}")  # fmt: skip
    return str(norm)


def _other(norm: str) -> str:
    """The norm that divides in the other direction."""
    return NORMS[::-1][NORMS.index(norm)]


if not TYPE_CHECKING:  # which knows the names that there are

    def __getattr__(name: str) -> NoReturn:
        refuse_name(__name__, name, {n: globals()[n] for n in __all__})
