"""The tracer: the stand-in for an array. It has a type and a value of the graph, and no elements.

It speaks NumPy's protocols, so that plain NumPy code runs on it, and behaves like an ``ndarray`` wherever the answer
follows from its type. What needs values raises a TraceError that says what to do instead.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from zenith.errors import ArgumentError, DeviceError, MissingAttributeError, user_line
from zenith.ir.dims import Dim
from zenith.ir.graph import Value
from zenith.ir.types import ArrayType, NumPyType
from zenith.trace import dispatch
from zenith.trace.calls import used
from zenith.trace.memory import ARGUMENT, DENSE, NUMBER, OUTSIDE, OWN, READ_ONLY, Link, Memory, raise_clobbered
from zenith.trace.number_methods import NumberMethods
from zenith.trace.numbers import size_of
from zenith.trace.operators import keep_weak
from zenith.trace.recorder import Recorder, current_recorder, mark
from zenith.trace.sizes import TracedSize, UserSize, user_size
from zenith.trace.tensor_functions import refuse_tensor_method, torch_function
from zenith.trace.ufuncs import array_ufunc

if TYPE_CHECKING:
    from zenith.numpy.typing import ArrayLike

ARGUMENTS = "arguments"  # the device of traced arrays
_NO_MEMORY = ", by which other libraries read an array's memory: its values exist only when the program runs"
_STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12")


class Tracer(NumberMethods):
    """An array (or, when ``weak``, a Python number) of the trace that ``recorder`` writes down.

    It owns its ``memory``, or is a view: then ``link`` says how it shows the array ``source``.
    """

    __slots__ = ("_seen", "_value", "_viewed", "layout", "link", "memory", "recorder", "source", "weak")
    __array_priority__ = 1000

    def __init__(
        self,
        recorder: Recorder,
        value: Value,
        weak: bool = False,
        layout: str = DENSE,
        access: str = "",
        name: str = "",
    ) -> None:
        assert isinstance(value.type, ArrayType)
        self.recorder, self.weak, self.layout = recorder, weak, layout
        self.memory = Memory(value, access or (OWN if value.type.rank else NUMBER), name)
        self.source: Tracer | None = None
        self.link: Link | None = None
        self._viewed = False  # whether there is a view of it
        self.set_value(value)

    # --- memory ---

    @property
    def value(self) -> Value:
        """The current value of the array; TraceError where a write has left that open."""
        if self.memory.clobbered is not None:
            raise_clobbered(self.memory, self.type)
        if self._seen != self.memory.version:
            base = self.memory.value if self.source is None else self.source.value
            self.set_value(base if self.link is None else self.link.read(self.recorder, base))
        return self._value

    def set_value(self, value: Value) -> None:
        """Set the value of the array after the last write into its memory."""
        self._value, self._seen = value, self.memory.version

    def show(self, source: Tracer, link: Link) -> None:
        """Become a view of another array; of one of a trace around this one it can only be read."""
        if source.recorder is not self.recorder:
            self.memory.access = OUTSIDE
            return
        self.source, self.link, self.memory = source, link, source.memory
        self._seen, source._viewed = self.memory.version, True

    def renewed(self, boxed: bool = False, read_only: bool = False, in_rows: bool = False) -> Tracer:
        """An array in new memory with the same elements, as NumPy's new arrays are.

        ``boxed`` means one that can be written though it has no axes, ``read_only`` one that cannot, ``in_rows`` one
        whose elements NumPy has row by row.
        """
        rank = self.type.rank
        access = NUMBER if self.weak or not (boxed or rank) else READ_ONLY if read_only else OWN
        recorder = current_recorder() or self.recorder
        value = recorder.lift(self)
        if value is None:  # of another trace, which is an error where it is used
            recorder, value = self.recorder, self.value
        return Tracer(recorder, value, self.weak, DENSE if in_rows or rank <= 1 else self.layout, access)

    @property
    def is_view(self) -> bool:
        """Whether it shows another array's memory, of this trace or of one around it."""
        return self.source is not None or self.memory.access == OUTSIDE

    def may_show(self, source: Any, function: str) -> None:
        """Note that NumPy's ``function`` might have given a view of another array."""
        if NUMBER in (self.memory.access, source.memory.access):
            return
        if source.recorder is not self.recorder:
            self.memory.access = OUTSIDE
        else:
            self.memory.add_alias(source.memory, function)

    def shows(self, other: Tracer) -> bool:
        """Whether another array is the same view of the same memory."""
        if other.memory is not self.memory:
            return False
        mine: Tracer | None = self
        theirs: Tracer | None = other
        while mine is not None and theirs is not None and mine is not theirs:
            if mine.link is None or theirs.link is None or not mine.link.equals(theirs.link, self.recorder):
                return False
            mine, theirs = mine.source, theirs.source
        return mine is theirs

    # --- what the type says ---

    @property
    def type(self) -> ArrayType:
        """Element type and symbolic shape."""
        type = self._value.type
        assert isinstance(type, ArrayType)
        return type

    @property
    def shape(self) -> tuple[UserSize, ...]:
        """Sizes: ``int`` where fixed, :class:`~zenith.trace.sizes.TracedSize` where not."""
        return tuple(user_size(d, self.recorder) for d in self.type.shape)

    @shape.setter
    def shape(self, value: object) -> None:
        own = self.recorder is current_recorder() and (self.is_view or self.memory.access == OWN)
        if self._viewed or not own:
            self._refuse_assignment("shape", "make a view: x = x.reshape(shape)")
        view = dispatch.implementation("reshape")(self, value)
        if view.source is not self:
            self._refuse_assignment("shape", "make a copy: x = x.reshape(shape)")
        before = Tracer(self.recorder, self._value, self.weak, self.layout)
        before.memory, before.source, before.link, before._seen = self.memory, self.source, self.link, self._seen
        self.source, self.link, self.layout = before, view.link, view.layout
        self.set_value(view.value)
        before._viewed, self._viewed = True, False

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.type.rank

    @property
    def size(self) -> UserSize:
        """The number of elements."""
        return user_size(self.type.size, self.recorder)

    @property
    def dtype(self) -> NumPyType:
        """The NumPy dtype of the elements."""
        return self.type.dtype.numpy

    @dtype.setter
    def dtype(self, value: object) -> None:
        self._refuse_assignment("dtype", "convert the elements: x = x.astype(dtype)")

    def _refuse_assignment(self, name: str, fix: str) -> NoReturn:
        raise MissingAttributeError(f"ndarray.{name} of a traced array cannot be assigned", where=user_line(),
                                    types=(self.type,), fix=fix)  # fmt: skip

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> UserSize:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def T(self) -> Tracer:
        """The array with its axes in reverse order."""
        return dispatch.implementation("transpose")(self)

    @property
    def mT(self) -> Tracer:
        """The array with its last two axes exchanged."""
        return dispatch.implementation("matrix_transpose")(self)

    @property
    def real(self) -> Tracer:
        """The real part; of a real array the array itself."""
        return keep_weak(dispatch.implementation("real")(self), self)

    @real.setter
    def real(self, value: ArrayLike) -> None:
        dispatch.implementation("_write_component")(self, "real", value)

    @property
    def imag(self) -> Tracer:
        """The imaginary part; zeros for a real array."""
        return keep_weak(dispatch.implementation("imag")(self), self)

    @imag.setter
    def imag(self, value: ArrayLike) -> None:
        dispatch.implementation("_write_component")(self, "imag", value)

    @property
    def flat(self) -> Tracer:
        """The elements row by row, to be read and written by number."""
        return dispatch.implementation("_flat")(self)

    @flat.setter
    def flat(self, values: ArrayLike) -> None:
        dispatch.implementation("_write_flat")(self, values)

    @property
    def device(self) -> str:
        """``"arguments"``: a program runs where its arguments are."""
        return ARGUMENTS

    def to_device(self, device: object, /, *, stream: object = None) -> Tracer:
        """The array itself; DeviceError for another device than ``x.device``."""
        if device != self.device:
            raise DeviceError(f"a traced array cannot be moved to {device!r}: a program runs where its arguments are",
                              where=user_line(), types=(self.type,), fix="move the arguments")  # fmt: skip
        return self

    def __repr__(self) -> str:
        return mark(self, "r") or f"Tracer<{self.type}>"

    def __str__(self) -> str:
        return mark(self, "s") or f"Tracer<{self.type}>"

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        known = mark(self, ":", spec) or (f"<{self.type}>" if self.recorder.raises.ends else None)
        if known is None:
            return super().__format__(spec)
        return known

    def __hash__(self) -> int:
        self._needs_values("being an item of a set or the key of a dict",
                           "compare with == in a loop, or index an array with integers")  # fmt: skip

    def __copy__(self) -> Tracer:
        return dispatch.implementation("copy")(self)

    def __deepcopy__(self, memo: dict[int, Tracer]) -> Tracer:
        return memo.setdefault(id(self), dispatch.implementation("copy")(self))

    def size_of(self) -> Dim | None:
        return size_of(self) if not self.ndim and self.dtype.kind in "iu" else None

    # --- NumPy's protocols ---

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> object:
        return array_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, function: object, types: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        return dispatch.array_function(function, args, kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        import zenith.numpy

        if api_version not in (None, *_STANDARDS):
            raise ArgumentError(f"there is no version {api_version!r} of the array API standard here",
                                where=user_line(), fix=f"use one of {', '.join(_STANDARDS)}")  # fmt: skip

        return zenith.numpy

    @classmethod
    def __torch_function__(cls, function: object, types: object, args: object = (), kwargs: object = None) -> object:
        return torch_function(function)

    # --- indexing and iteration ---

    def __getitem__(self, index: object) -> Tracer:
        return dispatch.implementation("_getitem")(self, index)

    def __setitem__(self, index: object, value: ArrayLike) -> None:
        dispatch.implementation("_setitem")(self, index, value)

    def __delitem__(self, index: object) -> NoReturn:
        raise ArgumentError("elements of an array cannot be deleted, as in NumPy", where=user_line(),
                            types=(self.type,), fix="x = numpy.delete(x, index) makes a new array")  # fmt: skip

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tracer]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        if isinstance(self.shape[0], TracedSize) and _looks_for_arrays(sys._getframe(1)):
            return iter((self,))
        return self._slices()

    def _slices(self) -> Iterator[Tracer]:
        """The slices along the first axis, for whose size the trace is specialised.

        A caller that only asks whether there is an iterator leaves the size open.
        """
        for i in range(int(self.shape[0])):  # one after the other: the loop's body may write into later ones
            yield self[i]

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            refuse_tensor_method(name, (self.type,))
            why = _NO_MEMORY if name == "__dlpack_device__" else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{why}")
        raise MissingAttributeError(
            f"ndarray.{name} is not supported on traced arrays",
            where=user_line(),
            types=(self.type,),
            fix="write it with functions that are supported",
        )


def _looks_for_arrays(frame: FrameType) -> bool:
    """Whether this is NumPy looking for arrays with its protocols, and not for their slices.

    It does so in one of its dispatchers, or directly in the line that calls a function that is known here.
    """
    if frame.f_globals.get("__name__", "").startswith("numpy."):
        return frame.f_code.co_name.endswith("_dispatcher")
    use = used(frame)
    return use is not None and dispatch.knows(use.thing) and not use.unpacks


def argument(recorder: Recorder, value: Value, weak: bool, name: str = "") -> Tracer:
    """The stand-in for an argument, whose memory is the caller's; one without axes is a number."""
    return Tracer(recorder, value, weak, access=ARGUMENT if len(value.shape) else NUMBER, name=name)
