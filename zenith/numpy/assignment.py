"""Writing into traced arrays: assignment to what an index selects, in-place operators, ``out=``.

Each computes the array's new value and binds the array to it (:mod:`zenith.trace.memory`). Values are converted to
the array's element type: assignments convert as NumPy's do, whatever the kinds, and results of functions only to the
same kind, so that no operator writes a float into an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from zenith.errors import DTypeError, ShapeError, UnsupportedError, user_line
from zenith.ir.dims import Dim
from zenith.ir.types import NumPyType, int64
from zenith.numpy import elementwise as ew
from zenith.numpy.boolean_indexing import Selected, expand_to_view
from zenith.numpy.broadcasting import align, spread
from zenith.numpy.casts import check_rule, stored
from zenith.numpy.index_expressions import Masked, Selection, mask_of, select
from zenith.numpy.indexing import elements_of
from zenith.numpy.operands import (
    BOOL,
    INT64,
    as_array,
    ask,
    contains_traced,
    convert,
    dims_of,
    result_dtype,
    shape_text,
    strong,
    types_of,
)
from zenith.numpy.promotion import castable
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b, graph_value
from zenith.trace.dispatch import implements, refuse_numpy
from zenith.trace.memory import check_writable, write
from zenith.trace.recorder import current_recorder
from zenith.trace.tracer import Tracer

# The ufuncs whose ``at`` is a scatter.
_SCATTERS = {"add": "scatter_add", "multiply": "scatter_mul", "maximum": "scatter_max", "minimum": "scatter_min"}
WRITTEN_AT = sorted({*_SCATTERS, "subtract"})  # the ufuncs with `at`; of bools logical_or and logical_and, too
_OF_BOOLS = {"add": "scatter_max", "logical_or": "scatter_max", "multiply": "scatter_min", "logical_and": "scatter_min"}


# --- assignment ----------------------------------------------------------------------------------------------------


@implements(gives="view")
def _setitem(x: Tracer, index: ArrayLike, value: Array) -> None:
    """``x[index] = value``."""
    target = check_writable(cast(Tracer, as_array(x)))
    found = select(target, index)
    if isinstance(value, Tracer) and value.is_view and isinstance(found, Selection) and _shown(found, value):
        return  # ``x[1:] += y``: the view that Python assigns here was written already
    if isinstance(found, Masked) and isinstance(value, Selected):
        whole = strong(convert(value.written(found), x.dtype))
        write_all(found.view, b.where(mask_of(found), whole, found.view))
    elif isinstance(found, Masked):
        write_all(found.view, _under_mask(found, strong(stored(value, x.dtype))))
    elif found.arrays:
        updates = _updates(found, fitted(value, x.dtype, found.shape))
        write_all(found.view, b.scatter_set(found.view, updates, *_scatter_indices(found)))
    else:
        write_all(found.view, fitted(value, x.dtype, found.shape))


def _shown(found: Selection, value: Tracer) -> bool:
    """Whether a value is the view of what is selected."""
    if any(index.ndim for index in found.arrays):
        return False
    view = elements_of(found)
    return isinstance(view, Tracer) and view.shows(value)


def write_all(target: Tracer, value: Array) -> None:
    """Bind an array to a new value of all its elements."""
    write(target, graph_value(current_recorder() or target.recorder, value))


def fitted(value: ArrayLike, dtype: NumPyType, shape: Sequence[Dim]) -> Array:
    """A value of an element type, repeated to a shape; ShapeError where it does not fit."""
    x = strong(stored(value, dtype))
    own = dims_of(x)
    while len(own) > len(shape) and ask(own[0], "==", 1):
        own = own[1:]
    x = x if own == dims_of(x) else b.reshape(x, shape=own)
    pairs = list(zip(own[::-1], shape[::-1], strict=False))
    if len(own) > len(shape) or not all(n == m or n == 1 or ask(n, "==", m) or ask(n, "==", 1) for n, m in pairs):
        raise ShapeError(
            f"cannot write an array {shape_text(dims_of(x))} into a selection {shape_text(shape)}", where=user_line(),
            types=types_of(x), fix="make the sizes equal, or 1 (sizes are matched from the last axis on)",
        )  # fmt: skip
    return spread(x, tuple(shape))


def _under_mask(found: Masked, value: Array) -> Array:
    """The view with a value where the mask is true."""
    view = found.view
    return b.where(mask_of(found), fitted(expand_to_view(found, value), view.dtype, dims_of(view)), view)


def _scatter_indices(found: Selection) -> list[Array]:
    """An index array for each axis of the view up to the last that arrays select from; of the other axes an iota."""
    sizes, last = dims_of(found.view), found.axes[-1]
    counted = [a for a in found.others if a < last]
    shape = (*(sizes[a] for a in counted), *found.lead)
    arrays = dict(zip(found.axes, found.arrays, strict=True))
    own = tuple(range(len(counted), len(shape)))
    return [
        _repeated(arrays[a], shape, own) if a in arrays
        else _repeated(b.iota(size=sizes[a], dtype=int64), shape, (counted.index(a),))
        for a in range(last + 1)
    ]  # fmt: skip


def _repeated(x: Array, shape: tuple[Dim, ...], axes: tuple[int, ...]) -> Array:
    return x if dims_of(x) == shape else b.broadcast(x, shape=shape, axes=axes)


def _updates(found: Selection, value: Array) -> Array:
    """A value of the selection's shape, its axes permuted to begin with those of :func:`_scatter_indices`."""
    others, lead = list(found.others), list(range(found.at, found.at + len(found.lead)))
    moved = {a: k if k < found.at else k + len(lead) for k, a in enumerate(others)}
    ahead = [moved[a] for a in others if a < found.axes[-1]]
    order = (*ahead, *lead, *(moved[a] for a in others if a > found.axes[-1]))
    return value if order == tuple(range(len(order))) else b.transpose(value, axes=order)


@implements(gives="view")
def _write_component(x: Array, name: str, value: Array) -> None:
    """``x.real = value`` or ``x.imag = value``."""
    target = as_array(x)
    if target.dtype.kind == "c":
        _setitem(getattr(b, name)(target), Ellipsis, value)
    elif name == "real":
        _setitem(target, Ellipsis, value)
    else:
        raise DTypeError(f"an array of {target.dtype} has no imaginary part to write", where=user_line(),
                         fix="convert it first: x = x.astype(numpy.complex64)")  # fmt: skip


# --- results -------------------------------------------------------------------------------------------------------


@implements(gives="view")
def _write_result(array: Array, result: Array, name: str, casting: str = "same_kind") -> Array:
    """Write the result of a function into an array and give that: for ``out=`` and in-place operators."""
    if isinstance(result, tuple) and isinstance(array, tuple):
        return tuple(r if a is None else _write_result(a, r, name, casting) for a, r in zip(array, result, strict=True))
    if not isinstance(array, Tracer):
        if contains_traced(result):
            refuse_numpy(name, array, types_of(result))
        np.copyto(array, result, casting=casting)  # type: ignore[arg-type]
        return array
    target = check_writable(cast(Tracer, as_array(array)))
    given = as_array(result)
    require_kind(name, given.dtype, target.dtype, casting)
    if given.ndim > target.ndim:
        raise ShapeError(
            f"{name} gives an array {shape_text(dims_of(given))}, which cannot be written into "
            f"{shape_text(dims_of(target))}", where=user_line(), types=(*types_of(given), *types_of(target)),
            fix="write it into an array of its shape",
        )  # fmt: skip
    write_all(target, fitted(given, target.dtype, dims_of(target)))
    return array


def require_kind(name: str, found: NumPyType, wanted: NumPyType, casting: str = "same_kind") -> None:
    """DTypeError unless results of a function may be written into an array of another element type."""
    check_rule(name, casting)
    if not castable(found, wanted, casting):
        raise DTypeError(
            f"{name} gives {found} here, which cannot be written into {wanted}", where=user_line(),
            fix=f"convert first, as numpy.{name}(...).astype(numpy.{wanted}), or make the array of {found}",
        )  # fmt: skip


@implements(gives="view")
def _ufunc_into(
    function: Callable[..., Array], ufunc: np.ufunc, inputs: Sequence[ArrayLike], options: Mapping[str, Any]
) -> Any:
    """A ufunc with ``out=``, and with ``where=`` only for some elements."""
    rest = {k: v for k, v in options.items() if k not in ("out", "where")}
    outs, mask, casting = options["out"], options.get("where", True), options.get("casting", "same_kind")
    outs = outs if isinstance(outs, tuple) else (outs,) * ufunc.nout
    result = function(*inputs, **rest)
    pairs = list(zip(outs, result if ufunc.nout > 1 else (result,), strict=True))
    if mask is not True:
        pairs = [(o, _chosen(ufunc.__name__, mask, r, o, casting)) for o, r in pairs]
    written = tuple(r if o is None else _write_result(o, r, ufunc.__name__, casting) for o, r in pairs)
    return written if ufunc.nout > 1 else written[0]


def _chosen(name: str, mask: Array, result: Array, out: Array, casting: str) -> Array:
    if out is None:
        raise UnsupportedError(f"{name}: where= without out= leaves elements without a value", where=user_line(),
                               fix="use numpy.where(mask, f(x), y)")  # fmt: skip
    require_kind(name, as_array(result).dtype, out.dtype, casting)
    return b.where(*align(name, [convert(mask, BOOL), convert(result, out.dtype), as_array(out)]))


@implements(gives="view")
def _ufunc_at(ufunc: np.ufunc, x: Any, indices: Any, values: Any = None) -> None:
    """``ufunc.at(x, indices, values)``: unbuffered, so that every value counts where indices repeat."""
    name = ufunc.__name__
    if not isinstance(x, Tracer):
        if contains_traced([indices, values]):
            refuse_numpy(f"{name}.at", x)
        return ufunc.at(x, indices, *([] if values is None else [values]))
    target = check_writable(cast(Tracer, as_array(x)))
    subtracts = name == "subtract" and x.dtype.kind != "b"
    of_bools = _OF_BOOLS if x.dtype.kind == "b" else {}
    scatter = of_bools.get(name, _SCATTERS.get("add" if subtracts else name))
    if scatter is None or values is None:
        raise UnsupportedError(f"numpy.{name}.at is not supported on traced arrays", where=user_line(),
                               fix=f"those that are: {', '.join(WRITTEN_AT)}")  # fmt: skip
    found = select(target, indices)
    require_kind(name, result_dtype(name, (x, values)), x.dtype)
    if subtracts:
        name, values = "add", ew.negative(convert(values, x.dtype))
    if isinstance(found, Masked):
        old = found.view
        added = getattr(ew, name)(old, _under_mask(found, convert(values, x.dtype)))
        write_all(old, b.where(mask_of(found), added, old))
    elif found.arrays:
        updates = _updates(found, fitted(values, x.dtype, found.shape))
        write_all(found.view, _scattered(scatter, found.view, updates, _scatter_indices(found)))
    else:
        write_all(found.view, convert(getattr(ew, name)(found.view, fitted(values, x.dtype, found.shape)), x.dtype))


def _scattered(scatter: str, x: Array, updates: Array, indices: Sequence[Array]) -> Array:
    """A scatter; one of bools is computed in integers."""
    if x.dtype.kind != "b":
        return getattr(b, scatter)(x, updates, *indices)
    return convert(getattr(b, scatter)(*(convert(v, INT64) for v in (x, updates)), *indices), BOOL)
