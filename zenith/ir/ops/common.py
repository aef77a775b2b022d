"""Helpers of all primitives: typing checks, linear derivative rules, batching helpers, samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from zenith.errors import DTypeError, ShapeError
from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import DimLike, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import Composite, HostCall, InnerLoops
from zenith.ir.primitive import JvpRule, Params, Sample
from zenith.ir.types import ArrayType, DType, NDArray, NumPyType, Type, has_derivative, is_narrow

KINDS = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "floating-point", "c": "complex"}


def arrays(name: str, types: Sequence[Type], count: int | None = None) -> list[ArrayType]:
    """The argument types as array types; an error when the count is wrong or a token is among them."""
    if count is not None and len(types) != count:
        raise ShapeError(f"{name} takes {count} arguments, not {len(types)}", types=tuple(types))
    found = [t for t in types if isinstance(t, ArrayType)]
    if len(found) != len(types):
        raise DTypeError(f"{name} takes arrays, not tokens", types=tuple(types))
    return found


def require_kind(name: str, type: ArrayType, kinds: str) -> None:
    """An error unless the element type is of one of ``kinds``."""
    if type.dtype.kind not in kinds:
        wanted = " or ".join(KINDS[k] for k in kinds)
        fix = "take a part of it (real, imag) or abs" if type.dtype.is_complex else "cast the operand first"
        raise DTypeError(f"{name} needs a {wanted} array, not {type}", types=(type,), fix=fix)


def require_wide(name: str, type: ArrayType) -> None:
    """An error for 16-bit floats, which the library that computes the operation does not support."""
    if type.dtype.is_narrow:
        raise DTypeError(f"{name} computes in float32 or wider, not in {type.dtype}", types=(type,),
                         fix="cast the operand to float32 first")  # fmt: skip


def require_same_dtype(name: str, types: Sequence[ArrayType]) -> None:
    """An error unless all element types are equal."""
    if any(t.dtype != types[0].dtype for t in types):
        raise DTypeError(f"{name} needs operands of one element type", types=tuple(types), fix="cast one operand")


def require_same_shape(name: str, types: Sequence[ArrayType]) -> None:
    """An error when two shapes surely differ."""
    first = types[0].shape
    for other in types[1:]:
        if len(other.shape) != len(first) or any(
            prove_equal(a, b) is False for a, b in zip(first, other.shape, strict=True)
        ):
            raise ShapeError(f"{name} needs operands of one shape", types=tuple(types))


def require_axis(name: str, type: ArrayType, axis: int) -> None:
    """An error unless ``axis`` is an axis of ``type`` (counted from 0)."""
    if not 0 <= axis < type.rank:
        raise ShapeError(f"{name}: axis {axis} is outside {type}", types=(type,))


def floats(values: Sequence[Value]) -> list[bool]:
    """Which of the values can move."""
    return [has_derivative(v.type) for v in values]


def or_zeros(b: Builder, cotangents: Cotangents, outputs: Values) -> list[Value]:
    """The cotangents of several results, zeros where there is none."""
    return [b.zeros_like(o) if c is None else c for c, o in zip(cotangents, outputs, strict=True)]


def results_of(found: Value | Sequence[Value]) -> list[Value]:
    """A builder's results as a list: it returns a single one by itself."""
    return [found] if isinstance(found, Value) else list(found)


def moved_axes(axes: Iterable[int]) -> tuple[int, ...]:
    """Axes one further right, after a batch axis was put in front."""
    return tuple(a + 1 for a in axes)


def with_batch_axis(b: Builder, value: Value, batched: bool, size: DimLike) -> Value:
    """``value`` with a leading axis of ``size``: as it is when batched, else repeated."""
    if batched:
        return value
    shape = (size, *value.shape)
    return b.broadcast(value, shape=shape, axes=tuple(range(1, len(shape))))


def all_batched(b: Builder, args: Values, batched: Sequence[bool], size: DimLike) -> list[Value]:
    """Every argument with a leading batch axis."""
    return [with_batch_axis(b, a, flag, size) for a, flag in zip(args, batched, strict=True)]


def contracted(b: Builder, matrix: Value, vector: Value, axis: int) -> Value:
    """The sums along an axis of a matrix of its elements times a vector's; stacks of matrices have stacks of vectors.

    A matrix that is one row has one sum, of all axes: threads share a long row that is the only one.
    """
    batch, rank = matrix.shape[:-2], len(matrix.shape)
    flat = b.reshape(vector, shape=(*batch, matrix.shape[axis]))
    repeated = b.broadcast(flat, shape=matrix.shape, axes=(*range(len(batch)), axis))
    is_row = all(size == 1 for a, size in enumerate(matrix.shape) if a != axis)
    return b.reduce_sum(b.mul(matrix, repeated), axes=tuple(range(rank)) if is_row else (axis,))


def same_op_jvp(name: str) -> JvpRule:
    """The forward rule of an operation that is linear in its one array argument: itself, on the tangent."""

    def jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
        return [None if tangents[0] is None else getattr(b, name)(tangents[0], *primals[1:], **params)]

    return jvp


def numpy_call(module: str, among: Callable[..., None], loops: InnerLoops | Composite | None = None) -> HostCall:
    """A call of a module of NumPy's or its like: ``in_namespace(xp, values, results, params)`` fills the results.

    ``loops`` do so without Python.
    """
    return HostCall(partial(among, np), module, among, loops)


def rng(name: str) -> np.random.Generator:
    """A generator that depends on the primitive's name only, so that samples are the same everywhere."""
    return np.random.default_rng(sum(ord(c) * 31**i for i, c in enumerate(name)) % 2**32)


def random_array(
    generator: np.random.Generator, dtype: NumPyType, shape: Sequence[int], low: float = -2.0, high: float = 2.0
) -> NDArray:
    """Values of ``dtype`` between bounds (integers are taken ten times as wide; bool is fair)."""
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        start = 0 if dtype.kind == "u" else int(low * 10)
        return generator.integers(max(start, int(low * 10)), int(high * 10) + 1, shape).astype(dtype)
    if dtype.kind == "c":
        parts = generator.uniform(low, high, (2, *shape))
        return np.asarray(parts[0] + 1j * parts[1], dtype)
    return generator.uniform(low, high, shape).astype(dtype)


def libraries_compute_in(dtype: NumPyType) -> bool:
    """Whether LAPACK and pocketfft have the element type: float32, float64, complex64, complex128."""
    return dtype.char in "fdFD"


def wide(values: Sequence[NDArray]) -> list[Any]:
    """16-bit floats in float32, in which they are computed with; a reference rounds its result once, as kernels do.

    NumPy adds float16 in float16 along all but the last axis, and sorts nan of bfloat16 to the front.
    """
    return [v.astype(np.float32) if is_narrow(v.dtype) else v for v in values]


def rounded(array: NDArray, like: NDArray) -> NDArray:
    """A result in the type of :func:`wide` in the element type of ``like``; numbers too large for it are infinite."""
    with np.errstate(all="ignore"):
        return array.astype(like.dtype, copy=False)


def sample(*values: NDArray, **params: Any) -> Sample:
    """A :class:`~zenith.ir.primitive.Sample` from arrays and parameters."""
    return Sample(tuple(values), params)


def index_dtype(types: Sequence[ArrayType], name: str) -> None:
    """An error unless all index operands are integers."""
    for t in types:
        require_kind(name + " index", t, "iu")


def out_dtype(type: ArrayType, dtype: DType) -> tuple[ArrayType]:
    """One result of the same shape with another element type."""
    return (type.with_dtype(dtype),)
