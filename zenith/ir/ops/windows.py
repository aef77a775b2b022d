"""Sliding windows: all of an array's windows as an index map, and its transpose, the sum of overlapping windows.

``windows`` reads, so that a reduction of the last axes of its result is one kernel in which no window is ever in
memory. Its transpose is ``overlap_add``: each element is the sum of the elements of all windows that cover it
(convolution's ``col2im``). That sum is written with ``covering``, which lists them, so it is one kernel as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product as every
from typing import Any

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Values
from zenith.ir.dims import Dim, dim, prove_at_least, prove_equal
from zenith.ir.lowering import ArrayTypes, Composite, E, Elements, Index, Indexing, Reads
from zenith.ir.ops.common import arrays, random_array, require_kind, rng, same_op_jvp, sample, wide
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, kind_of

Shape = Sequence[Dim]


def window_count(size: Dim, window: Dim, stride: Dim, dilation: int) -> Dim:
    """How many windows an axis has: they begin ``stride`` apart, and their elements are ``dilation`` apart."""
    return (size - (window - 1) * dilation - 1) // stride + 1


def _check(name: str, x: ArrayType, steps: Params, count: int, axes: int) -> None:
    """An error unless there are ``count`` strides and dilations of 1 or more, and an array with so many axes."""
    stride, dilation = steps["stride"], steps["dilation"]
    wrong = any(prove_at_least(s, 1) is False for s in stride) or any(d < 1 for d in dilation)
    if not count == len(stride) == len(dilation) or not 1 <= axes <= x.rank or wrong:
        raise ShapeError(f"{name} needs a window, a stride and a dilation, all >= 1, for each of the last axes of {x}",
                         types=(x,))  # fmt: skip


def _counts(name: str, x: ArrayType, size: Shape, window: Shape, steps: Params) -> list[Dim]:
    """The number of windows along each axis; ShapeError where surely none fits."""
    for n, k, d in zip(size, window, steps["dilation"], strict=True):
        if prove_at_least(k, 1) is False or prove_at_least(n, (k - 1) * d + 1) is False:
            raise ShapeError(f"{name}: a window of {k} elements, {d} apart, does not fit in an axis of size {n}",
                             types=(x,))  # fmt: skip
    return [window_count(*item) for item in zip(size, window, steps["stride"], steps["dilation"], strict=True)]


def _samples(name: str, kinds: str) -> Callable[[NumPyType], Iterable[tuple[NDArray, dict[str, Any]]]]:
    """Shapes, windows, strides and dilations in one axis and two, with a rest."""

    def samples(dtype: NumPyType) -> Iterable[tuple[NDArray, dict[str, Any]]]:
        if kind_of(dtype) and kind_of(dtype) in kinds:
            for shape, window, stride, dilation in (
                ((7,), (3,), (2,), (1,)),
                ((2, 6, 5), (3, 2), (1, 2), (1, 3)),
            ):
                params = {"window": window, "stride": stride, "dilation": dilation}
                yield random_array(rng(name), dtype, shape), params

    return samples


# --- windows ---------------------------------------------------------------------------------------------------


def _windows_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("windows", types, 1)
    window, count = params["window"], len(params["window"])
    _check("windows", x, params, count, count)
    lead, size = x.shape[: x.rank - count], x.shape[x.rank - count :]
    return (x.with_shape([*lead, *_counts("windows", x, size, window, params), *window]),)


def _windows(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    (x,) = values
    window, axes = params["window"], tuple(range(x.ndim - len(params["window"]), x.ndim))
    span = [(k - 1) * d + 1 for k, d in zip(window, params["dilation"], strict=True)]
    found = np.lib.stride_tricks.sliding_window_view(x, span, axes)
    steps: tuple[Any, ...] = (..., *(slice(None, None, s) for s in (*params["stride"], *params["dilation"])))
    return (found[steps],)


def _windows_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    count = len(params["window"])
    lead, first, inside = index[: -2 * count], index[-2 * count : -count], index[-count:]
    steps = zip(first, inside, params["stride"], params["dilation"], strict=True)
    return read[0](*lead, *(i * s + j * d for i, j, s, d in steps))


def _windows_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    size = primals[0].shape[-len(params["window"]) :]
    return [b.overlap_add(cotangents[0], size=size, stride=params["stride"], dilation=params["dilation"])]


register(Primitive(
    name="windows", doc="All windows of the last axes: their numbers along these axes, then their elements.",
    params={"window": "sizes", "stride": "sizes", "dilation": "ints"}, typing=_windows_type, evaluate=_windows,
    lowering=Elements(_windows_element, cheap=True, strided=True), jvp=same_op_jvp("windows"), vjp=_windows_vjp,
    batch=lambda b, args, batched, size, params: [b.windows(args[0], **params)], ulp=0, effect=False,
    samples=lambda dtype: [sample(x, **params) for x, params in _samples("windows", "biufc")(dtype)],
))  # fmt: skip


# --- overlap_add -----------------------------------------------------------------------------------------------


def _sizes(x: ArrayType, count: int) -> tuple[Shape, Shape, Shape]:
    """The leading sizes of an array of windows, their numbers along each axis, and their own sizes."""
    middle = x.rank - count
    return x.shape[: middle - count], x.shape[middle - count : middle], x.shape[middle:]


def _checked_sizes(name: str, x: ArrayType, params: Params) -> tuple[Shape, Shape, Shape]:
    """The same; ShapeError unless an array of ``size`` has these windows."""
    size, count = params["size"], len(params["size"])
    _check(name, x, params, count, 2 * count)
    lead, counts, window = _sizes(x, count)
    for found, wanted in zip(counts, _counts(name, x, size, window, params), strict=True):
        if prove_equal(found, wanted) is False:
            raise ShapeError(f"{name}: an axis has {found} windows, but {wanted} fit in the size", types=(x,))
    return lead, counts, window


def _overlap_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("overlap_add", types, 1)
    require_kind("overlap_add", x, "iufc")
    lead, _, _ = _checked_sizes("overlap_add", x, params)
    return (x.with_shape([*lead, *params["size"]]),)


def _overlap_add(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    (x,), size, count = wide(values), params["size"], len(params["size"])
    middle = x.ndim - count
    out = np.zeros((*x.shape[: middle - count], *size), x.dtype)
    steps = list(zip(x.shape[middle - count : middle], params["stride"], params["dilation"], strict=True))
    for inside in every(*map(range, x.shape[middle:])):
        moved = zip(inside, steps, strict=True)
        covered: tuple[Any, ...] = (..., *(slice(j * d, j * d + (n - 1) * s + 1, s) for j, (n, s, d) in moved))
        with np.errstate(all="ignore"):
            out[covered] += x[(..., *inside)]
    return (out.astype(values[0].dtype, copy=False),)


def _overlap_expand(b: Builder, args: Values, params: Params) -> Values:
    listed = b.covering(args[0], **params)
    rank = len(listed.shape)
    return [b.reduce_sum(listed, axes=tuple(range(rank - len(params["size"]), rank)))]


def _overlap_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    window = primals[0].shape[-len(params["size"]) :]
    return [b.windows(cotangents[0], window=window, stride=params["stride"], dilation=params["dilation"])]


def _overlap_samples(dtype: NumPyType) -> Iterator[Sample]:
    for x, params in _samples("overlap_add", "iufc")(dtype):
        size = x.shape[-len(params["window"]) :]
        found = np.array(_windows((x,), params)[0])
        yield sample(found, size=size, stride=params["stride"], dilation=params["dilation"])


_OVERLAP = {"size": "sizes", "stride": "sizes", "dilation": "ints"}

register(Primitive(
    name="overlap_add", doc="The sum of overlapping windows in an array of a size.",
    params=_OVERLAP, typing=_overlap_type, evaluate=_overlap_add, lowering=Composite(_overlap_expand),
    jvp=same_op_jvp("overlap_add"), vjp=_overlap_vjp,
    batch=lambda b, args, batched, size, params: [b.overlap_add(args[0], **params)], ulp=4, effect=False,
    samples=_overlap_samples,
))  # fmt: skip


# --- covering --------------------------------------------------------------------------------------------------


def _candidates(window: Dim, stride: Dim, dilation: int) -> Dim:
    """How many windows of one axis may cover an element; with a dilation, not all of these do."""
    return (window + stride - 1) // stride if dilation == 1 else window


def _covering_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("covering", types, 1)
    lead, _, window = _checked_sizes("covering", x, params)
    candidates = [_candidates(*item) for item in zip(window, params["stride"], params["dilation"], strict=True)]
    return (x.with_shape([*lead, *params["size"], *candidates]),)


def _covering_element(k: Indexing[E], index: Index, read: Reads[E], types: ArrayTypes, params: Params) -> E:
    count = len(params["size"])
    lead, at, candidate = index[: -2 * count], index[-2 * count : -count], index[-count:]
    _, counts, window = _sizes(types[0], count)
    covers, first, inside = [], [], []
    for p, t, n, w, s, d in zip(at, candidate, counts, window, params["stride"], params["dilation"], strict=True):
        start = p - t * d  # where the window begins whose element t is this one
        number, element = (p // s - t, p % s + t * s) if d == 1 else (start // s, t)
        covers += [k.at_least(number, 0), k.at_least(n - 1, number)]
        covers += [k.at_least(w - 1, element)] if d == 1 and s != 1 else []
        covers += [k.equal(start % s, 0)] if d != 1 and s != 1 else []
        first.append(k.clamp(number, n))
        inside.append(k.clamp(element, w) if d == 1 and s != 1 else element)
    return k.where(k.all(covers), read[0](*lead, *first, *inside), k.cast(dim(0), types[0].dtype))


def _covering(values: Sequence[Any], params: Params) -> tuple[NDArray]:
    (x,), size, count = values, params["size"], len(params["size"])
    middle = x.ndim - count
    counts, window = x.shape[middle - count : middle], x.shape[middle:]
    steps = list(zip(window, params["stride"], params["dilation"], strict=True))
    candidates = [-(-w // s) if d == 1 else w for w, s, d in steps]
    out = np.zeros((*x.shape[: middle - count], *size, *candidates), x.dtype)
    for number in every(*map(range, counts)):
        for inside in every(*map(range, window)):
            at = [o * s + j * d for o, j, (_, s, d) in zip(number, inside, steps, strict=True)]
            candidate = [j // s if d == 1 else j for j, (_, s, d) in zip(inside, steps, strict=True)]
            out[(..., *at, *candidate)] = x[(..., *number, *inside)]
    return (out,)


_NEVER_SEEN = "it is how overlap_add is computed, which has one"

register(Primitive(
    name="covering", doc="For each element those of the windows that cover it, and zeros where fewer do.",
    params=_OVERLAP, typing=_covering_type, evaluate=_covering, lowering=Elements(_covering_element, cheap=True),
    jvp=not_differentiable(_NEVER_SEEN), vjp=not_differentiable(_NEVER_SEEN),
    batch=lambda b, args, batched, size, params: [b.covering(args[0], **params)], ulp=0, effect=False,
    samples=_overlap_samples,
))  # fmt: skip
