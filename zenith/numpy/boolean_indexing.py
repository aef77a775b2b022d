"""The elements that a traced mask selects: how many there are depends on its values, so they stay in the whole array.

``x[mask]`` is an operand of operators and elementwise functions, with numbers, rows of the axes after the mask's and
elements of the same mask; of reductions of all elements; and may be written back: ``x[mask] *= 2``,
``x[mask] = np.sqrt(y[mask])``, ``x[mask].mean()``. For all else they are gathered, into an array of a size that the
program computes. That may be written, so it is the only one that counts from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from zenith.errors import DTypeError, ShapeError, SourceLine, TraceError, user_line
from zenith.ir.dims import dim, product
from zenith.ir.types import NumPyType, kind_of
from zenith.numpy.data_dependent import counted
from zenith.numpy.index_expressions import Masked, mask_of
from zenith.numpy.operands import as_array, ask, asked_recorder, convert, dims_of, element_type, shape_text, types_of
from zenith.numpy.promotion import castable
from zenith.numpy.typing import Array, ArrayLike, Axes, DTypeLike
from zenith.trace.bind import b
from zenith.trace.dispatch import Unsized, implementation
from zenith.trace.memory import OUTSIDE, same_value
from zenith.trace.recorder import Recorder, current_recorder, resumed
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

_REDUCTIONS = ("all", "any", "max", "mean", "min", "prod", "std", "sum", "var")
_EXTREMES = {"max": -1, "min": 1}  # and in which direction is the number with which each begins
_POSITIONAL = 2  # positional arguments of a reduction: the elements and the axis
_HARMLESS = 0.5


class Selected(Unsized, np.lib.mixins.NDArrayOperatorsMixin):
    """What a mask selects of an array: elements of ``whole``, an array like the view that was selected from.

    Those of ``whole`` that are not selected may be any; as long as nothing has been computed, ``_source`` has the
    others, too. Once they are gathered to be written, they are those of ``own``. Traces inside of the one that made it
    gather to read.
    """

    __slots__ = ("_maker", "_read", "_source", "found", "line", "own", "whole")
    __array_priority__ = 1001
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, found: Masked, whole: Tracer, line: SourceLine | None, source: Tracer | None = None) -> None:
        self.found, self.whole, self.line, self._source = found, whole, line, source
        self._maker = current_recorder()
        self.own: Tracer | None = None
        self._read: Tracer | None = None

    @property
    def dtype(self) -> NumPyType:
        """The NumPy dtype of the elements."""
        return self.whole.dtype

    @property
    def recorder(self) -> Recorder:
        """The trace of the array that was selected from."""
        return self.whole.recorder

    @property
    def ndim(self) -> int:
        """The number of axes: one for what the mask selects, and those of the array that are not the mask's."""
        return self.whole.ndim - self.found.mask.ndim + 1

    def array(self) -> Tracer:
        """The elements in an array of their own; TraceError where the program's sizes must be known before it runs.

        It is one of the trace that made the selection, also where a branch or loop inside of it asks first.
        """
        recorder, maker = current_recorder(), self._maker
        if self.own is None and recorder is not None and maker is not None and recorder.encloses(maker):
            with resumed(maker):
                self.own = self._gather()
        return self.to_read()

    def to_read(self) -> Tracer:
        """The elements in an array that is not written."""
        recorder = current_recorder()
        if self.own is not None:
            return self.own
        if self._read is None or recorder is None or not recorder.encloses(self._read.recorder):
            self._read = self._gather()
            self._read.memory.access = OUTSIDE
        return self._read

    def _gather(self) -> Tracer:
        recorder = current_recorder()
        if recorder is None or not recorder.sized_loops:
            self.refuse()
        first, mask = self.found.axis, self.found.mask
        with resumed(mask.recorder):  # where it is known how many there are, so that it is one number
            flags = implementation("ravel")(mask)
            counted(flags, "indexing with a mask", "extract(mask, x, size=n)")
        whole = self.whole if self._source is None else self._source
        shape = dims_of(whole)
        rows = b.reshape(whole, shape=(*shape[:first], product(dims_of(mask)), *shape[first + mask.ndim :]))
        found: Tracer = implementation("compress")(flags, rows, axis=first)
        return found

    def refuse(self) -> NoReturn:
        """TraceError at the line where the elements were selected."""
        raise TraceError(
            "indexing with a boolean mask gives a result whose size depends on values",
            where=self.line, types=types_of(self.found.mask),
            fix="say how many elements there are at most: zenith.numpy.extract(mask, x, size=n); or keep the shape: "
            "numpy.where(mask, x, 0)",
        )  # fmt: skip

    def copy(self, order: str = "C") -> Any:
        """The same elements."""
        return self.own.copy() if self.own is not None else Selected(self.found, self.whole, self.line, self._source)

    def astype(self, dtype: DTypeLike | None, **options: object) -> Any:
        """The elements with another type, as ``ndarray.astype``."""
        if self.own is not None:
            return self.own.astype(dtype, **options)
        return Selected(self.found, self.whole.astype(dtype, **options), self.line)

    def written(self, target: Masked) -> Any:
        """An array like the view of a selection, to be written where the mask is true in that."""
        own = self.own is None and _same_selection(self.found, target)
        return self.whole if own else expand_to_view(target, self.array())

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Array, **options: Any) -> Any:
        outs = options.pop("out", None)
        plain = method == "__call__" and not options and ufunc.signature is None and all(map(self._fits, inputs))
        if not plain or self.own is not None or (outs is not None and current_recorder() is not self._maker):
            options |= {} if outs is None else {"out": _as_array(outs)}
            return getattr(ufunc, method)(*map(_as_array, inputs), **options)
        found = ufunc(*map(self._whole_operand, inputs))
        results = found if ufunc.nout > 1 else (found,)
        for result in results:
            self._require_shape(ufunc.__name__, result)
        if outs is None:
            made = [Selected(self.found, result, self.line) for result in results]
            return tuple(made) if ufunc.nout > 1 else made[0]
        if ufunc.nout > 1 or outs[0] is not self:
            self.refuse()
        if not castable(found.dtype, self.dtype, "same_kind"):
            raise DTypeError(f"{ufunc.__name__} gives {found.dtype} here, which cannot be written into {self.dtype}",
                             where=user_line(), fix="convert the array first, as x = x.astype(...)")  # fmt: skip
        self.whole, self._source = convert(found, self.dtype), None
        return self

    def _fits(self, operand: Array) -> bool:
        """Whether an operand can be one of the whole array."""
        if isinstance(operand, Selected):
            return operand.own is None and _same_selection(self.found, operand.found)
        rank = np.ndim(operand)
        return rank < self.ndim or (rank == self.ndim and dims_of(operand)[self.found.axis] == 1)

    def _require_shape(self, name: str, result: Array) -> None:
        if dims_of(result) != dims_of(self.whole):
            raise ShapeError(
                f"{name} would repeat what a mask selects of an array {shape_text(dims_of(self.whole))} to one "
                f"{shape_text(dims_of(result))}", where=user_line(), fix="repeat the array first: numpy.broadcast_to",
            )  # fmt: skip

    def _whole_operand(self, operand: Array) -> Array:
        """An operand that broadcasts to the whole array."""
        if isinstance(operand, Selected):
            return operand.written(self.found)
        if not np.ndim(operand):
            return operand
        if np.ndim(operand) > self.ndim:
            self.refuse()
        return expand_to_view(self.found, operand)

    def __array_function__(
        self, function: Callable[..., Array], types: object, args: Sequence[Any], options: Mapping[str, Any]
    ) -> Array:
        name = getattr(function, "__name__", "")
        name = {"amax": "max", "amin": "min"}.get(name, name)
        reduced = name in _REDUCTIONS and 0 < len(args) <= _POSITIONAL and args[0] is self
        if not reduced or self.own is not None:
            return function(*map(_as_array, args), **{k: _as_array(v) for k, v in options.items()})
        return self._reduced(name, *args[1:], **options)

    def _reduced(self, name: str, axis: Axes = None, keepdims: bool = False, **options: object) -> Array:
        if "where" in options or self.own is not None or not (axis is None or (self.ndim == 1 and axis in (0, -1))):
            return implementation(name)(self.array(), axis=axis, keepdims=keepdims, **options)
        mask = mask_of(self.found)
        if name in _EXTREMES and "initial" not in options:
            result = implementation(name)(self.whole, where=mask, initial=_before(name, self.whole.dtype), **options)
            none = implementation("logical_not")(implementation("any")(mask))
            result = b.error_if(result, none, why=f"{name} of what a mask selects, and it selects nothing")
        else:
            result = implementation(name)(self.whole, where=mask, **options)
        return result.reshape((1,) * self.ndim) if keepdims else result

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NoReturn:
        self.refuse()

    def __len__(self) -> int:
        return len(self.to_read())

    def __iter__(self) -> Any:
        return iter(self.array())

    def __bool__(self) -> bool:
        return bool(self.array())

    def __getitem__(self, index: ArrayLike) -> Any:
        return self.array()[index]

    def __setitem__(self, index: ArrayLike, value: Array) -> None:
        self.array()[index] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.to_read() if name in ("shape", "size") else self.array(), name)


def expand_to_view(found: Masked, value: ArrayLike) -> Array:
    """An operand of the elements that a mask selects, as one that broadcasts to the view.

    An axis that counts those elements becomes the mask's, with the elements in their places; the program checks that
    there are as many.
    """
    x = as_array(value)
    rank, own = found.mask.ndim, dims_of(x)
    trailing = found.view.ndim - found.axis - rank
    if len(own) <= trailing:
        return x
    at = len(own) - trailing - 1
    shape = (*own[:at], *[dim(1)] * rank, *own[at + 1 :])
    if own[at].static != 1 and (asked_recorder().varies(own[at]) or not ask(own[at], "==", 1)):
        x, shape = _in_places(found.mask, x, at), (*own[:at], *dims_of(found.mask), *own[at + 1 :])
    return b.reshape(x, shape=shape)


def _in_places(mask: Array, elements: Array, axis: int) -> Array:
    """For each element of a mask the one of ``elements`` that belongs to it, which is counted along an axis."""
    shape = dims_of(elements)
    one = (*shape[:axis], dim(1), *shape[axis + 1 :])
    wrong = implementation("not_equal")(implementation("sum")(mask), user_size(shape[axis]))
    wrong = b.broadcast(wrong, shape=one, axes=())
    padding = b.full(0, element_type(elements), one)
    padding = b.error_if(padding, wrong, why="as many elements are written as a mask selects, and they are not as many")
    numbers = implementation("cumsum")(implementation("ravel")(mask), dtype=np.int64)
    padded = implementation("concatenate")([padding, elements], axis=axis)
    return implementation("take")(padded, numbers, axis=axis)


def _before(name: str, dtype: NumPyType) -> Any:
    """A number of an element type that no element changes the extreme of."""
    if kind_of(dtype) == "f":
        return _EXTREMES[name] * np.inf
    if kind_of(dtype) == "b":
        return name == "min"
    limits = np.iinfo(cast(Any, dtype))
    return limits.min if name == "max" else limits.max


def _as_array(value: Any) -> Any:
    """A value in whose place is the array of what a mask selects; in lists, too."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(_as_array, value)) if type(value) in (list, tuple) else value
    return value.array() if isinstance(value, Selected) else value


def selected(found: Masked, line: SourceLine | None) -> Selected:
    """What a mask selects now, whatever is written into the array or the mask later.

    Floating-point elements outside the mask become a number in nearly every function's domain: results of theirs are
    discarded, but derivatives would multiply a nan among them by 0.
    """
    snapshot = Masked(found.view.renewed(), found.mask.renewed(read_only=True), found.axis)
    whole = snapshot.view
    if kind_of(whole.dtype) in ("f", "c"):
        whole = b.where(mask_of(snapshot), whole, b.full(_HARMLESS, element_type(whole), dims_of(whole)))
    return Selected(snapshot, whole, line, snapshot.view)


def _method(name: str) -> Callable[..., object]:
    def method(self: Selected, axis: Axes = None, **options: Any) -> object:
        return self._reduced(name, axis, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"As ``ndarray.{name}``, of all elements."
    return method


for _name in _REDUCTIONS:
    setattr(Selected, _name, _method(_name))


def _same_selection(one: Masked, other: Masked) -> bool:
    """Whether two masks have one value, and select from views of one shape."""
    if one.axis != other.axis or one.view.ndim != other.view.ndim or one.mask.recorder is not other.mask.recorder:
        return False
    if not same_value(one.mask.recorder, one.mask.value, other.mask.value):
        return False
    return all(n == m or ask(n, "==", m) for n, m in zip(dims_of(one.view), dims_of(other.view), strict=True))
