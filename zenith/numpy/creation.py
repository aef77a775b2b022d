"""Making arrays: filled, counted, copied. Shapes may hold traced sizes.

Inside a traced function these record the rule that makes the array, not its elements; outside they give NumPy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numpy as np

from zenith.errors import DTypeError, TraceError, user_line
from zenith.ir.dims import Dim, dim, divide_exactly
from zenith.ir.types import NumPyType
from zenith.numpy import elementwise as ew
from zenith.numpy.broadcasting import align, spread
from zenith.numpy.casts import stored, warn_of_lost_imaginary
from zenith.numpy.joining import stack
from zenith.numpy.operands import (
    INT64,
    as_array,
    ask,
    check_device,
    compute_dtype,
    contains_traced,
    convert,
    dims_of,
    lift,
    number,
    require,
    require_count,
    result_dtype,
    sizes_of,
    strong,
    type_key,
    weak_kind,
)
from zenith.numpy.promotion import promote
from zenith.numpy.shaping import atleast_1d, broadcast_to, check_order, in_rows, reshape
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Shape, Size
from zenith.trace.bind import b, known_dtype
from zenith.trace.dispatch import implements
from zenith.trace.memory import DENSE, NUMBER, OPEN
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize, size_dim, user_size
from zenith.trace.tracer import Tracer

__all__ = [
    "arange", "array", "asarray", "ascontiguousarray", "copy", "empty", "empty_like", "eye", "full", "full_like",
    "identity", "meshgrid", "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip

_SHORT = 2**16  # numbers with denominators up to this: sizes as multiples of such fractions are exact


@implements()
def _size_array(size: TracedSize) -> Tracer:
    """A traced size as a 0-d value: a weak int64, or of the type that it has in NumPy."""
    value: Tracer = cast(Tracer, lift(b.size(value=size_dim(size))))  # of a size that was found to be fixed, a constant
    if size.numpy_type is not None:
        return cast(Tracer, number(convert(value, size.numpy_type)))
    value.weak = True
    return value


def _own(x: Any) -> Array:
    """A NumPy array that may be written to; a traced array as it is."""
    return x if isinstance(x, Tracer) or x.flags.writeable else x.copy()


@implements(np.full, gives="boxed")
def full(
    shape: Shape, fill_value: ArrayLike, dtype: DTypeLike | None = None, order: str = "C", *, device: str | None = None,
    like: object = None,
) -> Array:  # fmt: skip
    """An array of one repeated value."""
    check_device(device)
    target = result_dtype("full", (fill_value,)) if dtype is None else compute_dtype("full", np.dtype(dtype))
    if dtype is not None and weak_kind(fill_value) is not int:
        warn_of_lost_imaginary(as_array(fill_value).dtype, target)
    value = lift(convert(fill_value, target))
    return _own(broadcast_to(value, shape) if value.ndim else spread(value, sizes_of(shape)))


def _filled(name: str, value: int, function: Callable[..., object]) -> Callable[..., Array]:
    def make(
        shape: Shape, dtype: DTypeLike | None = None, order: str = "C", *, device: str | None = None,
        like: object = None,
    ) -> Array:  # fmt: skip
        return full(shape, value, np.float64 if dtype is None else dtype, device=device)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"An array of {'ones' if value else 'zeros'}, float64 by default."
    return implements(function, gives="boxed")(make)


zeros = _filled("zeros", 0, np.zeros)
ones = _filled("ones", 1, np.ones)
empty = _filled("empty", 0, np.empty)


@implements(np.full_like, gives="boxed")
def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True,
    shape: Shape | None = None, *, device: str | None = None,
) -> Array:  # fmt: skip
    """An array of one repeated value with the shape and element type of another."""
    model = as_array(x)
    shape = dims_of(model) if shape is None else shape
    filled = full(shape, fill_value, model.dtype if dtype is None else dtype, device=device)
    if isinstance(filled, Tracer) and getattr(model, "layout", DENSE) == OPEN:
        filled.layout = OPEN  # NumPy lays it out as the model
    return filled


def _filled_like(name: str, value: int, function: Callable[..., object]) -> Callable[..., Array]:
    def make(
        x: ArrayLike, dtype: DTypeLike | None = None, order: str = "K", subok: bool = True, shape: Shape | None = None,
        *, device: str | None = None,
    ) -> Array:  # fmt: skip
        return full_like(x, value, dtype, shape=shape, device=device)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"An array of {'ones' if value else 'zeros'} with the shape and element type of another."
    return implements(function, gives="boxed")(make)


zeros_like = _filled_like("zeros_like", 0, np.zeros_like)
ones_like = _filled_like("ones_like", 1, np.ones_like)
empty_like = _filled_like("empty_like", 0, np.empty_like)


@implements(np.arange)
def arange(
    start: ArrayLike, stop: ArrayLike | None = None, step: ArrayLike = 1, dtype: DTypeLike | None = None, *,
    device: str | None = None, like: object = None,
) -> Array:  # fmt: skip
    """start, start + step, ... before stop; with traced sizes, numbers need short binary forms: 0.5, and not 0.1."""
    check_device(device)
    start, stop = (0, start) if stop is None else (start, stop)
    for bound in (start, stop, step):
        if isinstance(bound, Tracer):
            size_dim(bound, "a bound of arange")
        if isinstance(bound, (complex, np.complexfloating)):
            raise DTypeError("arange counts real numbers", where=user_line(), fix="multiply its result")
    target = np.dtype(dtype) if dtype is not None else result_dtype("arange", (start, stop, step))
    target = INT64 if dtype is None and target.kind in "biu" else compute_dtype("arange", target)
    wide = target if target.kind != "b" else INT64
    counted = lifted_iota(_arange_count(start, stop, step), wide)
    if (step, start) != (1, 0):
        counted = ew.add(ew.multiply(counted, convert(step, wide)), convert(start, wide))
    return convert(counted, target)


def lifted_iota(count: Dim, dtype: NumPyType) -> Array:
    """0, 1, ... recorded when a trace is in progress."""
    require_count(count, "a number of elements is negative")
    if dtype.kind == "c":
        return convert(lifted_iota(count, known_dtype(dtype).real.numpy), dtype)
    recorder = current_recorder()
    if recorder is None or count.static is None:
        return b.iota(size=count, dtype=known_dtype(dtype))
    from zenith.ir.primitive import get

    return Tracer(recorder, recorder.add(get("iota"), (), {"size": count, "dtype": known_dtype(dtype)})[0])


def _arange_count(start: Any, stop: Any, step: Any) -> Dim:
    if not any(isinstance(v, TracedSize) for v in (start, stop, step)):
        if step == 0:
            raise TraceError(
                "the step of arange cannot be zero",
                where=user_line(),
                fix="use a step other than zero, or numpy.linspace for a number of elements",
            )
        return dim(max(0, math.ceil((stop - start) / step)))
    low, high, by = _common_multiples(start, stop, step)
    if by.static == 0:
        raise TraceError(
            "the step of arange cannot be zero",
            where=user_line(),
            fix="use a step other than zero, or numpy.linspace for a number of elements",
        )
    if by.static is None:
        require(by, ">=", 1, "the step of arange is a size, which must be positive")
    elif by.static < 0:
        low, high, by = high, low, -by
    if not ask(high, ">=", low):
        return dim(0)
    exact = divide_exactly(high - low, by)
    return (high - low + (by - 1)) // by if exact is None else exact


def _common_multiples(*bounds: Any) -> list[Dim]:
    """Sizes and fixed numbers as whole multiples of one unit fraction, such as a half."""
    exact = [Fraction(float(v)) if isinstance(v, (float, np.floating)) and math.isfinite(v) else v for v in bounds]
    denominator = math.lcm(*(v.denominator for v in exact if isinstance(v, Fraction)))
    if denominator > _SHORT:
        raise TraceError("arange with a traced size takes no bounds or steps that have long binary forms, such as 0.1",
                         where=user_line(), fix="multiply the result: zenith.numpy.arange(n) * 0.1")  # fmt: skip
    what = "arange with a traced size: start, stop and step"
    return [dim(int(v * denominator)) if isinstance(v, Fraction) else size_dim(v, what) * denominator for v in exact]


@implements(np.eye)
def eye(
    N: Size, M: ArrayLike | None = None, k: int = 0, dtype: DTypeLike = float, order: str = "C", *,
    device: str | None = None, like: object = None,
) -> Array:  # fmt: skip
    """Ones on diagonal ``k``, zeros elsewhere."""
    check_device(device)
    rows, columns = size_dim(N), size_dim(N if M is None else M)
    row = reshape(lifted_iota(rows, INT64), (user_size(rows), 1))
    hit = ew.equal(lifted_iota(columns, INT64), ew.add(row, k))
    return convert(hit, compute_dtype("eye", np.dtype(dtype)))


@implements(np.identity)
def identity(n: Size, dtype: DTypeLike = float, *, like: object = None) -> Array:
    """The square matrix with ones on the diagonal."""
    return eye(n, dtype=dtype)


@implements(np.array, gives="view")
def array(
    object: Any, dtype: DTypeLike | None = None, *, copy: bool | None = True, order: str = "K", subok: bool = False,
    ndmin: int = 0, like: object = None,
) -> Array:  # fmt: skip
    """An array from numbers, arrays and nested lists of them, traced or not.

    Inside a trace a copy is an array of the program, also a copy of concrete numbers: it can be written, and indexed by
    what is traced.
    """
    x = _array(object, dtype, copy is not False, ndmin)
    if copy is False:
        return x
    x = lift(x)
    return x.renewed(boxed=True) if isinstance(x, Tracer) else x


def _array(object: Any, dtype: DTypeLike | None, copy: bool, ndmin: int = 0) -> Array:
    """Numbers, arrays and nested lists as one array; a traced array as it is."""
    if isinstance(object, (list, tuple)) and contains_traced(object):
        keys = [type_key(v) for v in _leaves(object)]
        common = promote(tuple(keys))
        x = _nested(object, common)
    else:
        x = strong(as_array(object) if dtype is None else stored(object, np.dtype(dtype)))
        x = x.copy() if isinstance(x, np.ndarray) and copy else x
    if dtype is not None:
        x = convert(x, np.dtype(dtype))
    known_dtype(x.dtype)
    return reshape(x, (*[1] * (ndmin - x.ndim), *dims_of(x))) if x.ndim < ndmin else x


def _leaves(items: Any) -> list[Any]:
    if isinstance(items, (list, tuple)):
        return [leaf for item in items for leaf in _leaves(item)]
    return [items]


def _nested(items: Any, dtype: NumPyType) -> Array:
    if isinstance(items, (list, tuple)):
        return stack([_nested(item, dtype) for item in items])
    return convert(items, dtype)


@implements(np.asarray, np.asanyarray, gives="view")
def asarray(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str | None = None, *, device: str | None = None,
    copy: bool | None = None, like: object = None,
) -> Array:  # fmt: skip
    """The argument as an array, copied only when it must be.

    Inside a trace an array that was made outside becomes an array of the program, which can be indexed by what is
    traced, and is read-only.
    """
    check_device(device)
    x = _array(a, dtype, bool(copy))
    if isinstance(x, np.ndarray) and x.ndim and current_recorder() is not None:
        return cast(Tracer, lift(x)).renewed(read_only=x is a)
    if isinstance(x, Tracer) and (copy or x.memory.access == NUMBER):
        return x.renewed(boxed=True)
    return x if order in (None, "K", "A") else in_rows(x, x, "asarray")


@implements(np.ascontiguousarray, gives="view")
def ascontiguousarray(a: ArrayLike, dtype: DTypeLike | None = None, *, like: object = None) -> Array:
    """The argument as an array of at least one axis, in row-major order without gaps."""
    return atleast_1d(asarray(a, dtype, "C"))


@implements(np.copy, gives="boxed")
def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> Array:
    """A copy, which costs nothing where nobody writes."""
    check_order("copy", order)
    found = lift(_array(a, None, True))
    return found.renewed(boxed=True, in_rows=True) if order == "C" and isinstance(found, Tracer) else found


@implements(gives="boxed")
def _method_copy(x: Array, order: str = "C") -> Array:
    """``x.copy()``, in row-major order unless another is given."""
    return copy(x, order)


@implements(np.meshgrid, gives="view")
def meshgrid(*arrays: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Coordinate arrays of a grid; the first two axes are exchanged for ``indexing="xy"``."""
    rows = [reshape(as_array(x), (-1,)) for x in arrays]
    rank = len(rows)
    axes = list(range(rank))
    if indexing == "xy" and rank > 1:
        axes[0], axes[1] = 1, 0
    grown = [reshape(x, tuple(-1 if a == p else 1 for a in range(rank))) for x, p in zip(rows, axes, strict=True)]
    whole = grown if sparse else [_own(x) for x in align("meshgrid", grown)]
    return tuple(x.renewed() if copy and isinstance(x, Tracer) else x for x in whole)
