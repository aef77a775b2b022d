"""A traced array's answer where its values are needed: the number, if it follows from sizes alone, else a TraceError
that states who needs them and what to write instead.
"""

from __future__ import annotations

import ast
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import numpy as np

from zenith.errors import TraceError, user_frame, user_line
from zenith.ir.dims import Dim
from zenith.ir.types import ArrayType, NDArray
from zenith.trace import dispatch
from zenith.trace.calls import asking, library_function, writes_an_element
from zenith.trace.numbers import number_of_sizes
from zenith.trace.operators import Operators
from zenith.trace.recorder import Recorder, current_recorder

if TYPE_CHECKING:
    from zenith.ir.graph import Value
    from zenith.numpy.typing import DTypeLike

_STATIC = "keep it an array and use NumPy functions on it (astype to convert), or make the argument static"
_CONVERT = "use zenith.numpy.asarray or zenith.numpy.array (numpy.stack for a list of traced arrays)"
_TAKEN = "index an array of the program: zenith.numpy.asarray(table)[i], zenith.numpy.asarray(table)[i, j]"
_LISTED = "make one array of it, zenith.numpy.stack(items)[i], or choose a function by zenith.switch(i, functions)"
_MASKED = (
    "say how many elements there are at most: zenith.numpy.extract(mask, x, size=n), or zenith.numpy.nonzero(mask, "
    "size=n); or keep the shape: zenith.numpy.where(mask, x, 0). What is to be written, c[mask] += 1, is an array of "
    "the program: c = zenith.numpy.zeros(shape), zenith.numpy.array(values)"
)


class Valueless(Operators):
    """The methods of a traced array that Python and NumPy call for numbers."""

    __slots__ = ()
    recorder: Recorder

    @property
    def type(self) -> ArrayType:
        """Element type and symbolic shape."""
        raise NotImplementedError

    @property
    def value(self) -> Value:
        """Its value in the graph."""
        raise NotImplementedError

    def _needs_values(self, what: str, fix: str) -> NoReturn:
        """TraceError; about the function of NumPy's in the program's line, if that is what needs the values."""
        use = asking()
        known = dispatch.refused(use.thing) if use is not None and use.library else None
        if use is not None and known is not None:
            raise TraceError(f"{use.name}: {known[0]}", where=user_line(), types=(self.type,), fix=known[1])
        if use is None or not use.library:
            inside = library_function()
            what, fix = (f"{inside}: {what}", _instead(inside)) if inside else (what, fix)
        else:
            sized = self.type.rank < 2 and self.type.dtype.kind in "iu"
            what, fix = f"{use.name}: {what}", "; ".join([_instead(use.name), *[dispatch.NUMBERS] * sized])
        raise TraceError(
            f"{what} needs the values of a traced array, which exist only when the program runs",
            where=user_line(),
            types=(self.type,),
            fix=fix,
        )

    def __bool__(self) -> bool:
        if _compares_lists(sys._getframe(1)):
            self._needs_values(
                "comparing lists of traced arrays", "give arrays, numpy.stack([x[0], x[1]]), or call "
                "zenith.numpy.array_equal, which takes lists",
            )  # fmt: skip
        known = self._of_sizes()
        if known is not None:
            return bool(known)
        self._needs_values(
            "a Python condition (if, while, and, or, not, assert)",
            "choose between arrays with numpy.where(condition, a, b), between functions with zenith.cond(condition, f, "
            "g, x), loop with zenith.while_loop(condition, body, x), combine conditions with & | ~, or make the "
            "argument static; where a function's source is known, in a file or a notebook, its conditions are "
            "converted",
        )

    def _of_sizes(self) -> Any:
        """The number in this call where it follows from sizes alone, for which the trace is then specialised."""
        if self.type.rank or self.recorder is not current_recorder():
            return None
        return number_of_sizes(self.recorder, self.value.node, self.value.output)

    def size_of(self) -> Dim | None:
        """The size that an integer is (:func:`zenith.trace.numbers.size_of`); None where it is none."""
        return None

    def _number(self, what: str) -> Any:
        known = self._of_sizes()
        return self._unknown(what) if known is None else known

    def _unknown(self, what: str) -> NoReturn:
        if what == "float()" and writes_an_element(user_frame()):
            self._needs_values("writing it into a NumPy array", dispatch.TRACED_ARRAY)
        self._needs_values(what, _STATIC)

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __index__(self) -> NoReturn:
        self.size_of()
        use = asking()
        if use is not None and isinstance(use.node, ast.Subscript):
            listed = isinstance(use.thing, (list, tuple)) or isinstance(use.node.value, (ast.List, ast.Tuple))
            what, fix = ("list", _LISTED) if listed else ("NumPy array", _TAKEN)
            self._needs_values(f"indexing a {what} with it", fix)
        self._unknown("using it as a Python integer (an index, a size, range())")

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __round__(self, digits: int | None = None) -> object:
        return round(self._number("round()")) if digits is None else dispatch.implementation("round")(self, digits)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self._needs_values("pickling it", "return it from the function, and pickle the result")

    def tolist(self) -> NoReturn:
        """Not possible while tracing."""
        self._unknown("tolist()")

    def __format__(self, spec: str) -> str:
        if spec:
            self._needs_values("formatting it", "zenith.debug.print('{...}', x) prints it when the program runs")
        return repr(self)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray:
        if _compares_lists(sys._getframe(1)):
            return _objects(self)
        if writes_an_element(user_frame()):
            self._unknown("float()")
        use = asking()
        if use is not None and isinstance(use.node, ast.Subscript) and not use.library:
            masked = self.type.dtype.numpy.kind == "b"
            self._needs_values("indexing a NumPy array with it", _MASKED if masked else _TAKEN)
        self._needs_values("converting it to a NumPy array", _CONVERT)

    def __dlpack__(self, **options: object) -> NoReturn:
        self._unknown("handing it to another library (DLPack)")


def _instead(name: str) -> str:
    """What to write in place of a library's function that does not support tracing."""
    ours = dispatch.ours(name)
    if ours:
        return f"use {ours} in place of {name}"
    if name.startswith("numpy.random."):
        return "draw with zenith.random, whose functions take a key and traced arrays"
    return "write it with functions of zenith.numpy, or call it where the program runs, with zenith.pure_callback"


def _compares_lists(frame: FrameType) -> bool:
    """Whether NumPy compares lists: what is raised while it makes arrays of them means "not equal" there."""
    module = frame.f_globals.get("__name__", "")
    return module.startswith("numpy.") and frame.f_code.co_name in ("array_equal", "array_equiv")


def _objects(traced: Valueless) -> NDArray:
    """An array of Python objects of the shape of a traced one, for which the trace is specialised: each is that one."""
    found = np.empty((), object)
    found[()] = traced
    return np.broadcast_to(found, tuple(map(traced.recorder.specialize, traced.type.shape)))
