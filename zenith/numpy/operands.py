"""Operands: what a caller may pass, made into arrays of one element type and one shape.

Element types follow NumPy 2 (NEP 50): Python numbers, sizes and traced Python numbers are *weak*. Casts and broadcasts
become nodes of their own; equal sizes are found by asking the recorder.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from zenith.arrays import adapter_for
from zenith.arrays.host import plain
from zenith.errors import (
    AxisError,
    DeviceError,
    DTypeError,
    NumberError,
    ShapeError,
    UnsupportedError,
    ValueTypeError,
    ZenithError,
    user_line,
)
from zenith.ir.dims import Dim, dims
from zenith.ir.types import DType, NDArray, NumPyType, dtype_of
from zenith.numpy.promotion import Key, promote
from zenith.numpy.typing import Array, ArrayLike, Axes, Shape
from zenith.numpy.widening import note_widening
from zenith.trace import dispatch
from zenith.trace.bind import array_type, b, graph_value, known_dtype, raise_escaped_tracer
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.results import as_number
from zenith.trace.size_relations import NEGATED, VaryingSize
from zenith.trace.sizes import TracedSize, size_dim, user_size
from zenith.trace.tracer import ARGUMENTS, Tracer
from zenith.tree import how_to_register

FLOAT64 = np.dtype(np.float64)
INT64, UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
BOOL = np.dtype(np.bool_)


HOST = "cpu"


def check_device(device: str | None) -> None:
    """DeviceError unless arrays can be made there: on the host, or, in a trace, where the arguments are."""
    if device not in (None, HOST, ARGUMENTS):
        raise DeviceError(f"there is no device {device!r} in zenith.numpy", where=user_line(),
                          fix="use 'cpu', or pass arrays of another device to a compiled function")  # fmt: skip


def as_array(value: ArrayLike) -> Array:
    """A tracer or a NumPy array of a known element type from anything array-like."""
    if isinstance(value, Tracer):
        recorder = current_recorder()
        return value if recorder is not None and recorder.encloses(value.recorder) else raise_escaped_tracer(value)
    if isinstance(value, TracedSize):
        return value.as_array()
    if isinstance(value, dispatch.Unsized):
        return value.array()
    if isinstance(value, (list, tuple)) and contains_traced(value):
        return dispatch.implementation("array")(value)
    if isinstance(value, np.ndarray) and type(value) not in (np.ndarray, np.memmap):
        raise UnsupportedError(
            f"{type(value).__name__} is a subclass of numpy.ndarray with rules of its own, which Zenith does not know",
            where=user_line(),
            fix=f"use {plain(value, 'x')}",
        )
    try:
        array = np.asarray(snapshot(value))
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, ZenithError):
            raise
        raise DTypeError(
            f"not an array: {type(value).__name__} ({error})",
            where=user_line(),
            fix="give an array, a number, or nested lists of numbers",
        ) from error
    if array.dtype.hasobject:
        return _of_objects(value, array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    known_dtype(array.dtype)
    return array


def _of_objects(value: object, array: NDArray) -> Array:
    """The array where NumPy made one of Python objects; ValueTypeError or DTypeError unless these are traced."""
    if contains_traced(array.tolist()):
        return dispatch.implementation("array")(array.tolist())  # NumPy made it of sizes: np.array(x.shape)
    if fix := how_to_register(value):
        raise ValueTypeError(f"a {type(value).__name__} is neither an array nor a number", where=user_line(), fix=fix)
    known_dtype(array.dtype)
    return array


def snapshot(value: ArrayLike) -> Any:
    """An array on a GPU as a copy on the host, to be a constant of the trace in progress; anything else as it is.

    Raises DeviceError outside of traces: what is computed at once is computed by NumPy, and nothing is moved silently.
    """
    adapter = None if isinstance(value, (np.ndarray, np.generic)) else adapter_for(value)
    if adapter is None or adapter.device is None:
        return value
    if current_recorder() is None:
        raise DeviceError(
            f"an array on cuda:{adapter.device} was passed to what NumPy computes, on the CPU", where=user_line(),
            fix="wrap the function in zenith.jit, which computes on the GPU",
        )  # fmt: skip
    return adapter.numpy(value)


def strong(x: Array) -> Array:
    """The same array, no longer acting as a Python number."""
    return Tracer(x.recorder, x.value) if isinstance(x, Tracer) and x.weak else x


def number(x: Array) -> Array:
    """An array without axes as NumPy's scalars are: nothing that is written changes it."""
    return x.renewed() if isinstance(x, Tracer) else as_number(x)


def lift(x: Array) -> Array:
    """An array as a value of the trace in progress, so that operations on it are recorded; outside one, itself."""
    recorder = current_recorder()
    if recorder is None or isinstance(x, Tracer):
        return x
    return Tracer(recorder, graph_value(recorder, x))


def contains_traced(value: ArrayLike) -> bool:
    """Whether nested lists and tuples hold a traced value or size."""
    if isinstance(value, (list, tuple)):
        return any(map(contains_traced, value))
    return isinstance(value, (Tracer, TracedSize))


def weak_kind(value: ArrayLike) -> type | None:
    """``int``, ``float`` or ``complex`` for what acts as a Python number of that type, else None."""
    if isinstance(value, TracedSize):
        return int if value.numpy_type is None else None
    if isinstance(value, Tracer):
        return {"i": int, "f": float, "c": complex}.get(value.dtype.kind) if value.weak else None
    if isinstance(value, (bool, np.generic)):
        return None
    return next((kind for kind in (int, float, complex) if isinstance(value, kind)), None)


def type_key(value: ArrayLike) -> Key:
    """What NumPy's promotion needs to know of an operand: its dtype, or the Python type of a weak one."""
    return weak_kind(value) or dtype_of_operand(value)


def dtype_of_operand(value: Any) -> NumPyType:
    """The NumPy dtype of an operand."""
    known = isinstance(value, Tracer) or (isinstance(value, np.ndarray) and not value.dtype.hasobject)
    return value.dtype if known else as_array(value).dtype


def result_dtype(name: str, operands: Iterable[Any]) -> NumPyType:
    """The dtype that NumPy's promotion gives, checked to be one that Zenith computes in."""
    given = tuple(operands)
    keys = tuple(map(type_key, given))
    found = compute_dtype(name, promote(keys), keys)
    note_widening(name, given, found)
    return found


def compute_dtype(name: str, dtype: NumPyType, keys: Sequence[object] = ()) -> NumPyType:
    """``dtype``, or DTypeError when Zenith does not compute in it."""
    if dtype_of(dtype) is not None:
        return dtype
    given = tuple(k.__name__ if isinstance(k, type) else str(k) for k in keys)
    raise DTypeError(
        f"{name}: Zenith has no element type for {dtype}",
        where=user_line(),
        types=given,
        fix="cast an operand first: x.astype(numpy.float32), numpy.float64, numpy.int32 or numpy.int64",
    )


def compute_array(name: str, value: ArrayLike) -> Array:
    """An operand as an array whose element type Zenith computes in."""
    x = as_array(value)
    compute_dtype(name, x.dtype, (x.dtype,))
    return x


def convert(value: ArrayLike, dtype: NumPyType) -> Array:
    """An operand as an array of ``dtype``; NumberError when a Python int does not fit. NumPy's scalars stay such."""
    if weak_kind(value) is int and not isinstance(value, (Tracer, TracedSize)):
        return _python_int(cast(int, value), dtype)
    x = as_array(value)
    if isinstance(value, np.generic):
        return number(_converted(x, dtype))
    return _converted(x, dtype)


def _converted(x: Array, dtype: NumPyType) -> Array:
    if x.dtype == dtype:
        return x
    if isinstance(x, Tracer) or x.ndim:
        return b.cast(x, dtype=known_dtype(dtype))
    with np.errstate(all="ignore"):
        return (x.real if x.dtype.kind == "c" and dtype.kind not in "bc" else x).astype(dtype)


def _python_int(value: int, dtype: NumPyType) -> Array:
    try:
        with np.errstate(all="ignore"):
            return np.asarray(value, dtype)
    except OverflowError:
        raise NumberError(
            f"Python integer {value} is out of bounds for {dtype}",
            where=user_line(),
            fix=f"cast the array to a wider type first, or write numpy.int64({value})",
        ) from None


# --- shapes ----------------------------------------------------------------------------------------------------


def dims_of(x: Array) -> tuple[Dim, ...]:
    """The sizes of a tracer or NumPy array, as far as is known about their equality."""
    if isinstance(x, Tracer):
        return tuple(x.recorder.canonical(d) for d in x.type.shape)
    return dims(x.shape)


def sizes_of(shape: Shape, what: str = "a size") -> tuple[Dim, ...]:
    """The sizes that a user's shape (one size or a sequence) means; ShapeError when one is negative in any call."""
    items = shape if isinstance(shape, (list, tuple, np.ndarray)) else (shape,)
    found = tuple(size_dim(n, what) for n in items)
    reason = f"a shape has a negative size: {shape_text(found)}"
    if any((d.static or 0) < 0 for d in found):
        raise ShapeError(reason, where=user_line(), fix="use sizes of 0 or more")
    for size in found:
        require_count(size, reason)
    return found


def require_count(size: Dim, reason: str) -> None:
    """Demand that a size is not negative, in any call."""
    require(size, ">=", 0, reason)


def shape_text(shape: Iterable[object]) -> str:
    """``(n, 3)``: sizes as messages print them."""
    items = [str(d) for d in shape]
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def user_shape(shape: Iterable[Dim]) -> tuple[Any, ...]:
    """Sizes as users see them."""
    return tuple(user_size(d, current_recorder()) for d in shape)


def ask(left: Dim | int, relation: str, right: Dim | int) -> bool:
    """Whether a relation of sizes holds, assuming it when it depends on sizes that are not fixed.

    A size that the program computes is taken to be the larger one, which the program checks.
    """
    recorder = asked_recorder()
    try:
        return recorder.holds(left, relation, right)
    except VaryingSize:
        why = "an array whose size depends on values is smaller than this line can do with"
        for answer, claim in ((True, relation), (False, NEGATED[relation])):
            if recorder.is_demanded(left, claim, right, why):
                return answer
        raise


def require(
    left: Dim | int, relation: str, right: Dim | int, reason: str, error: type[ZenithError] = ShapeError
) -> None:
    """Demand a relation of sizes of every call; ``error`` when it fails in this one."""
    asked_recorder().require(left, relation, right, reason, error)


_NO_TRACE = Recorder("no trace", ())


def asked_recorder() -> Recorder:
    """Who answers questions about sizes: the trace in progress; outside one every size is fixed."""
    return current_recorder() or _NO_TRACE


def normal_axis(name: str, axis: object, rank: int) -> int:
    """An axis counted from 0; AxisError outside ``-rank <= axis < rank``."""
    number = static_int(axis, f"{name}: axis")
    if not -rank <= number < rank:
        raise AxisError(
            f"{name}: axis {number} is out of bounds for an array of {rank} axes",
            where=user_line(),
            fix=f"use an axis from {-rank} to {rank - 1}" if rank else "a 0-d array has no axes",
        )
    return number % rank


def normal_axes(name: str, axis: Axes, rank: int) -> tuple[int, ...]:
    """Axes counted from 0 and sorted; None means all."""
    if axis is None:
        return tuple(range(rank))
    items = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = sorted(normal_axis(name, a, rank) for a in items)
    if len(set(found)) != len(found):
        raise ShapeError(
            f"{name}: an axis is named twice: {tuple(items)}", where=user_line(), fix="name each axis once"
        )
    return tuple(found)


def static_int(value: Any, what: str) -> int:
    """A Python int; TraceError for a traced value, ValueTypeError for no integer."""
    if isinstance(value, Tracer):
        size_dim(value, what)
    try:
        return operator.index(value)
    except TypeError:
        raise ValueTypeError(
            f"{what} must be an integer, not {type(value).__name__}",
            where=user_line(),
            fix="give an int; one that is computed from a traced array has no value yet",
        ) from None


def types_of(x: Array) -> tuple[object, ...]:
    """The type of a traced array, for a message."""
    return (x.type,) if isinstance(x, Tracer) else ()


def element_type(x: Array) -> DType:
    """The element type of a tracer or NumPy array."""
    return array_type(x).dtype
