"""Making arrays: filled, counted, copied. Shapes may hold traced sizes.

Inside a traced function these record the rule that makes the array, not its elements; outside they give NumPy arrays.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zenith.errors import TraceError, UnsupportedError, user_line
from zenith.ir.dims import Dim, dim
from zenith.numpy import elementwise as ew
from zenith.numpy.joining import stack
from zenith.numpy.operands import (
    INT64,
    align,
    as_array,
    ask,
    compute_dtype,
    contains_traced,
    convert,
    dims_of,
    lift,
    result_dtype,
    sizes_of,
    spread,
    strong,
    type_key,
)
from zenith.numpy.promotion import promote
from zenith.numpy.selection import where
from zenith.numpy.shaping import reshape
from zenith.trace.bind import b, known_dtype
from zenith.trace.dispatch import implements
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize, size_dim, user_size
from zenith.trace.tracer import Tracer

__all__ = [
    "arange", "array", "asarray", "copy", "empty", "empty_like", "eye", "full", "full_like", "identity", "linspace",
    "meshgrid", "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip


@implements()
def _size_array(size: TracedSize) -> Tracer:
    """A traced size as a weak 0-d int64 value."""
    value: Tracer = b.size(value=size_dim(size))
    value.weak = True
    return value


def _own(x: Any) -> Any:
    """A NumPy array that may be written to; a traced array as it is."""
    return x if isinstance(x, Tracer) or x.flags.writeable else x.copy()


@implements(np.full)
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    """An array of one repeated value."""
    target = result_dtype("full", (fill_value,)) if dtype is None else compute_dtype("full", np.dtype(dtype))
    return _own(spread(lift(convert(fill_value, target)), sizes_of(shape)))


def _filled(name: str, value: int, function: Any) -> Any:
    def make(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Any:
        return full(shape, value, np.float64 if dtype is None else dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"An array of {'ones' if value else 'zeros'}, float64 unless told."
    return implements(function)(make)


zeros = _filled("zeros", 0, np.zeros)
ones = _filled("ones", 1, np.ones)
empty = _filled("empty", 0, np.empty)


@implements(np.full_like)
def full_like(x: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
              *, device: Any = None) -> Any:  # fmt: skip
    """An array of one repeated value with the shape and element type of another."""
    model = as_array(x)
    return full(dims_of(model) if shape is None else shape, fill_value, model.dtype if dtype is None else dtype)


def _filled_like(name: str, value: int, function: Any) -> Any:
    def make(
        x: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
    ) -> Any:
        return full_like(x, value, dtype, shape=shape)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"An array of {'ones' if value else 'zeros'} with the shape and element type of another."
    return implements(function)(make)


zeros_like = _filled_like("zeros_like", 0, np.zeros_like)
ones_like = _filled_like("ones_like", 1, np.ones_like)
empty_like = _filled_like("empty_like", 0, np.empty_like)


@implements(np.arange)
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None, like: Any = None
) -> Any:
    """start, start + step, ... before stop; sizes may be traced when start and step are integers."""
    start, stop = (0, start) if stop is None else (start, stop)
    for bound in (start, stop, step):
        if isinstance(bound, Tracer):
            size_dim(bound, "a bound of arange")
    target = np.dtype(dtype) if dtype is not None else result_dtype("arange", (start, stop, step))
    target = INT64 if dtype is None and target.kind in "biu" else compute_dtype("arange", target)
    wide = target if target.kind != "b" else INT64
    counted = _lift_iota(_arange_count(start, stop, step), wide)
    if (step, start) != (1, 0):
        counted = ew.add(ew.multiply(counted, convert(step, wide)), convert(start, wide))
    return convert(counted, target)


def _lift_iota(count: Dim, dtype: np.dtype[Any]) -> Any:
    """0, 1, ... recorded when a trace is in progress."""
    recorder = current_recorder()
    if recorder is None or count.static is None:
        return b.iota(size=count, dtype=known_dtype(dtype))
    from zenith.ir.primitive import get

    return Tracer(recorder, recorder.add(get("iota"), (), {"size": count, "dtype": known_dtype(dtype)})[0])


def _arange_count(start: Any, stop: Any, step: Any) -> Dim:
    if not any(isinstance(v, TracedSize) for v in (start, stop, step)):
        if step == 0:
            raise TraceError("the step of arange cannot be zero", where=user_line())
        return dim(max(0, math.ceil((stop - start) / step)))
    low, high, by = (size_dim(v, "arange with a traced size: start, stop and step") for v in (start, stop, step))
    if by.static is None or by.static == 0:
        raise TraceError("the step of arange must be a fixed number, not zero", where=user_line())
    if by.static < 0:
        low, high, by = high, low, -by
    return (high - low + (by - 1)) // by if ask(high, ">=", low) else dim(0)


@implements(np.linspace)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0, *, device: Any = None) -> Any:  # fmt: skip
    """``num`` evenly spaced numbers from start to stop (left out when ``endpoint`` is false)."""
    if retstep or axis != 0:
        raise UnsupportedError("linspace: retstep and axis are not supported", where=user_line(), fix="leave them out")
    exact = result_dtype("linspace", (start, stop, 1.0))
    count = size_dim(num, "linspace: num")
    gaps = count - 1 if endpoint else count
    place = _lift_iota(count, exact)
    low, high = convert(start, exact), convert(stop, exact)
    place = reshape(place, (user_size(count), *[1] * max(low.ndim, high.ndim)))
    if gaps == 0:
        result = ew.add(ew.multiply(place, ew.subtract(high, low)), low)
    else:
        step = ew.divide(ew.subtract(high, low), user_size(gaps))
        result = ew.add(ew.multiply(place, step), low)
        result = where(ew.equal(place, user_size(gaps)), high, result) if endpoint else result
    if dtype is None or np.dtype(dtype) == exact:
        return result
    return convert(
        ew.floor(result) if np.dtype(dtype).kind in "iu" else result, compute_dtype("linspace", np.dtype(dtype))
    )


@implements(np.eye)
def eye(
    N: Any, M: Any = None, k: int = 0, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    """Ones on diagonal ``k``, zeros elsewhere."""
    rows, columns = size_dim(N), size_dim(N if M is None else M)
    row = reshape(_lift_iota(rows, INT64), (user_size(rows), 1))
    hit = ew.equal(_lift_iota(columns, INT64), ew.add(row, k))
    return convert(hit, compute_dtype("eye", np.dtype(dtype)))


@implements(np.identity)
def identity(n: Any, dtype: Any = float, *, like: Any = None) -> Any:
    """The square matrix with ones on the diagonal."""
    return eye(n, dtype=dtype)


@implements(np.array)
def array(object: Any, dtype: Any = None, *, copy: Any = True, order: str = "K", subok: bool = False, ndmin: int = 0,
          like: Any = None) -> Any:  # fmt: skip
    """An array from numbers, arrays and nested lists of them, traced or not."""
    if isinstance(object, (list, tuple)) and contains_traced(object):
        keys = [type_key(v) for v in _leaves(object)]
        common = promote(tuple(keys))
        x = _nested(object, common)
    else:
        x = strong(as_array(object))
        x = x.copy() if isinstance(x, np.ndarray) and copy is not False else x
    x = x if dtype is None else convert(x, np.dtype(dtype))
    known_dtype(x.dtype)
    return reshape(x, (*[1] * (ndmin - x.ndim), *dims_of(x))) if x.ndim < ndmin else x


def _leaves(items: Any) -> list[Any]:
    if isinstance(items, (list, tuple)):
        return [leaf for item in items for leaf in _leaves(item)]
    return [items]


def _nested(items: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(items, (list, tuple)):
        return stack([_nested(item, dtype) for item in items])
    return convert(items, dtype)


@implements(np.asarray, np.asanyarray, np.ascontiguousarray)
def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
) -> Any:
    """The argument as an array, copied only when it must be."""
    return array(a, dtype, copy=copy or False)


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """A copy (a traced array, which never changes, is its own)."""
    return array(a)


@implements(np.meshgrid)
def meshgrid(*arrays: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Coordinate arrays of a grid; the first two axes are exchanged for ``indexing="xy"``."""
    parts = [reshape(as_array(x), (-1,)) for x in arrays]
    rank = len(parts)
    places = list(range(rank))
    if indexing == "xy" and rank > 1:
        places[0], places[1] = 1, 0
    grown = [reshape(x, tuple(-1 if a == p else 1 for a in range(rank))) for x, p in zip(parts, places, strict=True)]
    return tuple(grown if sparse else map(_own, align("meshgrid", grown)))
