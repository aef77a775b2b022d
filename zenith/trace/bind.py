"""Applying a primitive: at once on concrete arrays, recorded when an operand (or a size) is traced.

``b`` writes like the builder of the primitives' own rules, ``b.mul(x, 2.0)``: a Python number becomes an array of the
type and shape of an array operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import zenith.ir.ops  # noqa: F401  fills the registry
from zenith.errors import DTypeError, TraceError, ZenithError, user_line
from zenith.ir import params as params_
from zenith.ir.dims import Dim, DimLike, dims
from zenith.ir.graph import Value
from zenith.ir.primitive import Params, Primitive, get
from zenith.ir.types import DTYPES, ArrayType, DType, NumPyType, dtype_of
from zenith.trace.memory import VIEWS, layout_of, link_of
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.results import as_number
from zenith.trace.tracer import Tracer

if TYPE_CHECKING:
    from zenith.numpy.typing import Array

_NUMBERS = (bool, int, float, complex)  # by exact type: NumPy's scalars, of which some derive from these, are arrays


def bind(primitive: Primitive, *args: Any, **params: object) -> Any:
    """Apply ``primitive`` to tracers and NumPy arrays; one result alone, several as a tuple."""
    recorder = _recorder(args, params)
    try:
        if recorder is None:
            results = _compute(primitive, args, params)
        else:
            values = [graph_value(recorder, a) for a in args]
            found = recorder.add(primitive, values, params)
            results = tuple(_traced(recorder, primitive.name, args, values, params, v) for v in found)
    except ZenithError as error:
        raise error.at(user_line()) from None
    return results[0] if len(results) == 1 else results


def _traced(
    recorder: Recorder,
    primitive: str,
    args: Sequence[Any],
    values: Sequence[Value],
    params: Params,
    v: Value,
) -> Tracer:
    """A result of an operation: a new array, or a view of the first operand where NumPy's result is one."""
    result = Tracer(recorder, v, layout=layout_of(primitive, args, params, len(v.shape)))
    source = args[0] if args else None
    if isinstance(source, Tracer):
        source = recorder.resolve(source)
        link = link_of(primitive, source, values, params)
        if link is not None:
            result.show(source, link)
        elif primitive == "reshape":
            result.may_show(source, "reshape")
    return result


def graph_value(recorder: Recorder, array: Any) -> Value:
    """The value of a tracer or NumPy array in the recorder's graph; TraceError for a tracer of another trace."""
    if not isinstance(array, Tracer):
        return recorder.constant(array)
    value = recorder.lift(array)
    return raise_escaped_tracer(array) if value is None else value


def raise_escaped_tracer(tracer: Tracer) -> NoReturn:
    """Raise the TraceError for a tracer that is used outside its trace."""
    graph = tracer.recorder.graph
    made = graph.node(tracer.value.node).line
    origin = f", made at {made.describe()}," if made is not None else ""
    state = "after the trace had ended" if tracer.recorder.finished else "inside another trace"
    raise TraceError(
        f"a value of the trace of {graph.name}{origin} was used {state}",
        where=user_line(),
        types=(tracer.type,),
        fix="return it from the function, or pass it as an argument, instead of keeping it in a variable outside",
    )


def _recorder(args: Sequence[object], params: Params) -> Recorder | None:
    """The trace that an application belongs to; None when all is concrete."""
    tracer = next((a for a in args if isinstance(a, Tracer)), None)
    current = current_recorder()
    if tracer is not None:
        if tracer.recorder.finished or current is None:
            raise_escaped_tracer(tracer)
        return current
    if current is not None and any(map(_is_symbolic, params.values())):
        return current
    return None


def _is_symbolic(param: object) -> bool:
    if isinstance(param, tuple):
        return any(map(_is_symbolic, param))
    return isinstance(param, Dim) and param.static is None


def array_type(array: Array) -> ArrayType:
    """The type of a tracer or NumPy array; DTypeError when Zenith has no such element type."""
    return array.type if isinstance(array, Tracer) else ArrayType(known_dtype(array.dtype), array.shape)


@lru_cache(maxsize=256)
def _find_dtype(dtype: NumPyType) -> DType | None:
    return dtype_of(dtype)


def known_dtype(dtype: NumPyType) -> DType:
    """The element type of a NumPy dtype; DTypeError when Zenith has none."""
    found = _find_dtype(dtype)
    if found is None:
        raise DTypeError(
            f"Zenith has no element type for {dtype}",
            where=user_line(),
            fix="make it by zenith.numpy.array, or by what makes it of traced sizes (arange ...) in zenith.numpy"
            if dtype.kind == "O"
            else "convert first, with astype: to " + ", ".join(t.numpy_name for t in DTYPES),
        )
    return found


def _compute(primitive: Primitive, args: Sequence[Array], params: Params) -> tuple[Array, ...]:
    """The results of a primitive on arrays; those without axes are numbers, unless they show an array's memory."""
    normal = params_.normalize(primitive.params, params)
    primitive.typing([array_type(a) for a in args], normal)
    results = primitive.evaluate([np.asarray(a) for a in args], params_.evaluate(primitive.params, normal, {}))
    if primitive.name in VIEWS and isinstance(args[0], np.ndarray):
        return tuple(np.asarray(r) for r in results)
    return tuple(as_number(np.asarray(r)) for r in results)


class BindingBuilder:
    """Every primitive as a method that binds; the interface of :class:`zenith.ir.builder.Builder`."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            primitive = get(name)
        except KeyError:
            raise AttributeError(f"no primitive {name!r}") from None

        def apply(*args: Any, **params: object) -> Any:
            if any(type(a) in _NUMBERS for a in args):
                args = self._arrays(args)
            return bind(primitive, *args, **params)

        setattr(self, name, apply)
        return apply

    def full(self, value: Any, dtype: DType, shape: Sequence[DimLike]) -> Any:
        """An array of one repeated number."""
        with np.errstate(all="ignore"):
            scalar = np.asarray(value, dtype.numpy)
        return bind(get("broadcast"), scalar, shape=dims(shape), axes=()) if len(shape) else scalar

    def zeros_like(self, x: Array) -> Array:
        """Zeros of an operand's type."""
        model = array_type(x)
        return self.full(0, model.dtype, model.shape)

    def _arrays(self, args: Sequence[Any]) -> tuple[Any, ...]:
        model = array_type(next(a for a in args if type(a) not in _NUMBERS))
        return tuple(self.full(a, model.dtype, model.shape) if type(a) in _NUMBERS else a for a in args)


b = BindingBuilder()
