"""Convolutions over any number of axes, and their transposes, in PyTorch's layout: channels first.

As everywhere in neural networks, a *convolution* is a correlation: windows are not reversed.
"""

from __future__ import annotations

from typing import Any

from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.ir.dims import Dim, dim
from zenith.nn.windows import per_axis
from zenith.numpy.operands import as_array, convert, dims_of, require, result_dtype, shape_text, static_int
from zenith.numpy.typing import Array, ArrayLike, Shape, Size
from zenith.trace.bind import b

__all__ = ["conv", "conv_transpose"]


def conv(
    x: ArrayLike, w: ArrayLike, bias: ArrayLike | None = None, stride: Shape = 1, padding: Shape | str = 0,
    dilation: Shape = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """The correlation of channels with weights (``torch.nn.functional.conv1d``, ``conv2d``, ``conv3d``).

    Parameters
    ----------
    x: ``(N, C, *spatial)``, integers or floating-point, with one spatial axis or more.
    w: ``(O, C / groups, *window)``.
    bias: ``(O,)``, or None.
    stride, dilation: an int, or one for each spatial axis: how far windows, and a window's elements, are apart.
    padding: zeros on both sides, an int or one for each spatial axis; or "valid" for none, or "same" for as many as
        preserve the sizes, an odd one at the end (with strides of 1).
    groups: the number of groups of channels; each computes its share of the ``O`` outputs.

    Returns ``(N, O, *sizes)`` of the promoted type. Raises ShapeError where operands do not fit each other or no window
    fits, ArgumentError for numbers that mean nothing. Reference: V. Dumoulin and F. Visin, arXiv:1603.07285.

    >>> import numpy as np
    >>> conv(np.arange(5.0).reshape(1, 1, 5), np.array([[[1.0, 0.0, -1.0]]]), padding=1)
    array([[[-1., -2., -2., -2.,  3.]]])
    """
    x, w, bias = _operands("conv", x, w, bias)
    axes = x.ndim - 2
    steps, dilations = _ints("conv", "stride", stride, axes), _ints("conv", "dilation", dilation, axes)
    low, high = _padding(padding, dims_of(w)[2:], steps, dilations, axes)
    count = _groups("conv", x, w, groups, 1)
    for n, k, lo, hi, d in zip(dims_of(x)[2:], dims_of(w)[2:], low, high, dilations, strict=True):
        require(
            n + lo + hi, ">=", (k - 1) * d + 1, f"conv: a window of {k} elements does not fit in an axis of size {n}"
        )
    found = b.conv(_padded(x, low, high), w, strides=steps, dilation=dilations, groups=count)
    return _with_bias(found, bias)


def conv_transpose(
    x: ArrayLike, w: ArrayLike, bias: ArrayLike | None = None, stride: Shape = 1, padding: Shape = 0,
    output_padding: Shape = 0, dilation: Shape = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """The transpose of :func:`conv` by its array (``torch.nn.functional.conv_transpose1d`` and so on).

    Parameters
    ----------
    x: ``(N, C, *spatial)``.
    w: ``(C, O / groups, *window)``.
    bias: ``(O,)``, or None.
    stride, dilation: as in :func:`conv`.
    padding: the padding of the convolution on both sides, which is cut off; an int, or one for each spatial axis.
    output_padding: further elements at the end of each axis: a convolution maps several sizes to one.
    groups: as in :func:`conv`.

    Returns ``(N, O, *sizes)``, sizes ``(n - 1) * stride - 2 * padding + dilation * (k - 1) + output_padding + 1``.
    Raises ShapeError and ArgumentError.

    >>> import numpy as np
    >>> conv_transpose(np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0]]]), stride=2)
    array([[[ 1., 10.,  2., 20.]]])
    """
    x, w, bias = _operands("conv_transpose", x, w, bias)
    axes = x.ndim - 2
    steps, dilations = (_ints("conv_transpose", n, v, axes) for n, v in (("stride", stride), ("dilation", dilation)))
    cut = per_axis("conv_transpose", "padding", padding, axes, 0)
    more = per_axis("conv_transpose", "output_padding", output_padding, axes, 0)
    count = _groups("conv_transpose", x, w, groups, 0)
    around = [((k - 1) * d, c, o) for k, d, c, o in zip(dims_of(w)[2:], dilations, cut, more, strict=True)]
    spread = _padded(x, [a for a, _, _ in around], [a + o for a, _, o in around], [s - 1 for s in steps])
    found = b.conv(spread, _transposed(w, count), strides=(1,) * axes, dilation=dilations, groups=count)
    for n, c in zip(dims_of(found)[2:], cut, strict=True):
        require(n, ">=", c + c, f"conv_transpose: a padding of {c} leaves nothing of an axis of size {n}")
    sizes = dims_of(found)
    if any(c != 0 for c in cut):
        stop = (n - c for n, c in zip(sizes[2:], cut, strict=True))
        found = b.slice(found, start=(0, 0, *cut), stop=(*sizes[:2], *stop), step=(1,) * x.ndim)
    return _with_bias(found, bias)


def _operands(name: str, x: ArrayLike, w: ArrayLike, bias: ArrayLike | None) -> tuple[Array, Array, Array | None]:
    x, w = as_array(x), as_array(w)
    if x.ndim < 3 or w.ndim != x.ndim:
        raise ShapeError(f"{name}: {shape_text(x.shape)} and {shape_text(w.shape)} are no channels and their weights",
                         where=user_line(), fix="give x (N, C, *spatial) and w with as many axes")  # fmt: skip
    for n in w.shape:
        static_int(n, f"{name}: a size of the weights")
    given = [x, w] if bias is None else [x, w, as_array(bias)]
    dtype = result_dtype(name, given)
    return convert(x, dtype), convert(w, dtype), None if bias is None else convert(as_array(bias), dtype)


def _ints(name: str, what: str, given: Any, axes: int) -> tuple[int, ...]:
    found = per_axis(name, what, given, axes, 1)
    return tuple(static_int(n.static, f"{name}: {what}") for n in found)


def _padding(
    given: Any, window: tuple[Dim, ...], steps: tuple[int, ...], dilations: tuple[int, ...], axes: int
) -> tuple[list[Dim], list[Dim]]:
    """The zeros in front of each axis and after it."""
    if given == "same":
        if any(s != 1 for s in steps):
            raise ArgumentError('conv: padding="same" needs strides of 1', where=user_line(),
                                fix="say how many zeros there are")  # fmt: skip
        whole = [(k - 1) * d for k, d in zip(window, dilations, strict=True)]
        return [n // 2 for n in whole], [n - n // 2 for n in whole]
    low = list(per_axis("conv", "padding", 0 if given == "valid" else given, axes, 0))
    return low, low


def _groups(name: str, x: Array, w: Array, groups: Size, axis: int) -> int:
    """The number of groups; ``axis`` is that of the weights that counts a group's own channels of ``x``."""
    count = static_int(groups, f"{name}: groups")
    if count < 1:
        raise ArgumentError(f"{name}: groups must be 1 or more, not {count}", where=user_line(), fix="use 1 for all")
    channels, first = dims_of(x)[1], dims_of(w)[0]
    own = dims_of(w)[1] * count if axis else first
    require(channels, "==", own, f"{name}: weights {shape_text(w.shape)} in {count} groups are for {own} channels")
    require(first % count, "==", 0, f"{name}: {count} groups do not divide {first}")
    return count


def _padded(x: Array, low: list[Dim], high: list[Dim], between: list[int] | None = None) -> Array:
    inner = between or [0] * len(low)
    if all(n == 0 for n in (*low, *high, *inner)):
        return x
    return b.pad(x, convert(0, x.dtype), low=(0, 0, *low), high=(0, 0, *high), interior=(0, 0, *inner))


def _transposed(w: Array, groups: int) -> Array:
    """Weights (C, O / groups, window) as those of a convolution, (O, C / groups, reversed window)."""
    channels, outputs, *window = dims_of(w)
    axes = tuple(range(2, w.ndim))
    grouped = b.reshape(w, shape=(groups, channels // groups, outputs, *window))
    exchanged = b.transpose(grouped, axes=(0, 2, 1, *(a + 1 for a in axes)))
    joined = b.reshape(exchanged, shape=(outputs * groups, channels // groups, *window))
    return b.reverse(joined, axes=axes)


def _with_bias(found: Array, bias: Array | None) -> Array:
    if bias is None:
        return found
    sizes = dims_of(found)
    require(dims_of(bias)[0] if bias.ndim == 1 else dim(-1), "==", sizes[1],
            f"a bias {shape_text(bias.shape)} is none for {sizes[1]} channels")  # fmt: skip
    return b.add(found, b.broadcast(bias, shape=sizes, axes=(1,)))
