"""Exceptions that values decide: what ``raise`` and ``assert`` of converted functions become.

A program cannot raise. It computes the number of the exception that its function has raised, 0 while there is none, and
the values in the exception's message: arrays of the trace, which loops and branches write as they write the user's
(:mod:`zenith.trace.stands`). The call of a compiled function then raises the exception, once all that was written
before it is in the caller's arrays. What is traced inside of another trace, to be differentiated or batched, raises
:class:`~zenith.errors.CheckError` with the text, as ``zenith.error_if`` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zenith.errors import SourceLine, TraceError, user_line
from zenith.ir.graph import Value
from zenith.ir.primitive import get
from zenith.ir.types import DType, int64

if TYPE_CHECKING:
    from zenith.trace.recorder import Recorder
    from zenith.trace.tracer import Tracer

_MARK = re.compile("\0(\\d+)([rs:])([^\0]*)\0")  # a value in a text: its number, and how it is shown


@dataclass(frozen=True, slots=True)
class Shown:
    """A value of the program in the place of an argument or attribute of an exception."""

    number: int


@dataclass(frozen=True)
class Raised:
    """An exception that a program may raise: its arguments and attributes, with marks for values, and its line.

    ``types`` are those of the values, ``weak`` says which are Python's numbers.
    """

    kind: type[BaseException]
    args: tuple[object, ...]
    attributes: tuple[tuple[str, object], ...]
    cause: BaseException | None
    line: SourceLine | None
    types: tuple[DType, ...]
    weak: tuple[bool, ...]

    @property
    def text(self) -> str:
        """The exception in words, without the values in its message."""
        said = "".join(_MARK.sub("?", str(arg)) for arg in self.args[:1])
        return f"{self.kind.__name__}: {said}" if said else self.kind.__name__

    def error(self, values: Sequence[Any]) -> BaseException:
        """The exception, with values in its message; a note says where it was raised."""
        known = [v.item() if weak else v for v, weak in zip(values, self.weak, strict=True)]
        args = _filled(self.args, known)
        made = self.kind.__new__(self.kind, *args)
        made.args = args
        for name, value in self.attributes:
            setattr(made, name, _filled(value, known))
        made.__cause__ = self.cause
        if self.line is not None:
            made.add_note("  at " + self.line.describe())
        return made

    def is_like(self, other: Raised) -> bool:
        """Whether another one is the same, of a body that was traced once more."""
        return repr(self) == repr(other)


def _filled(found: Any, values: Sequence[Any]) -> Any:
    """Arguments of an exception, with values in the place of marks."""
    if isinstance(found, Shown):
        return values[found.number]
    if isinstance(found, str):
        return _MARK.sub(lambda match: _written(values[int(match[1])], match[2], match[3]), found)
    if type(found) in (tuple, list):
        return type(found)(_filled(item, values) for item in found)
    return found


def _written(value: Any, how: str, spec: str) -> str:
    return repr(value) if how == "r" else str(value) if how == "s" else format(value, spec)


@dataclass
class Raises:
    """The exceptions that a trace may raise; bodies of loops and branches share those of the trace around them.

    Attributes
    ----------
    found: the exceptions, whose numbers begin with 1.
    code: the number of the one that was raised; None as long as there is none.
    values: for each of them the values in its message.
    certain: the numbers that are none of no exception, by their recorders and nodes.
    catching: how many ``try`` with handlers are being traced, which would have to be asked.
    called: the functions of NumPy's that are called inside of these.
    refused: the error of a ``raise`` in one of these, which a handler may swallow.
    showing: the values in the message that is being made; None while there is none.
    ends: whether tracing is about to raise, so that sizes in the message are those of this call.
    """

    found: list[Raised] = field(default_factory=list)
    code: Tracer | None = None
    values: list[tuple[Tracer, ...]] = field(default_factory=list)
    certain: set[tuple[int, int]] = field(default_factory=set)
    catching: int = 0
    called: set[str] = field(default_factory=set)
    refused: TraceError | None = None
    showing: list[Tracer] | None = None
    ends: bool = False

    def number(self, raised: Raised, owner: Recorder) -> int:
        """The number of an exception, for which the trace ``owner`` gets arrays if it is a new one."""
        if self.code is None:
            self.code = _array(owner, int64, weak=False)
        for number, known in enumerate(self.found):
            if known.is_like(raised):
                return number + 1
        self.found.append(raised)
        pairs = zip(raised.types, raised.weak, strict=True)
        self.values.append(tuple(_array(owner, dtype, weak) for dtype, weak in pairs))
        return len(self.found)

    @contextmanager
    def shown(self) -> Iterator[list[Tracer]]:
        """Within this block texts of traced values are marks; the values are collected."""
        before, self.showing = self.showing, []
        try:
            yield self.showing
        finally:
            self.showing = before

    def mark(self, value: Any, how: str, spec: str = "") -> str | None:
        """What stands for a traced value in a message that is being made; None elsewhere."""
        if self.showing is None:
            return None
        if value.ndim:
            return f"<{value.type}>"
        self.showing.append(value)
        return f"\0{len(self.showing) - 1}{how}{spec}\0"

    def refuse(self, why: str, fix: str) -> TraceError:
        """The error of an exception that cannot be the program's; it is kept, as handlers may swallow it."""
        self.refused = self.refused or TraceError(why, where=user_line(), fix=fix)
        return self.refused

    def check(self) -> None:
        """Raise the error of what has been refused."""
        if self.refused is not None:
            raise self.refused

    def arrays(self) -> list[Tracer]:
        """What the program gives as further results: the number, and the values of all messages."""
        return [] if self.code is None else [self.code, *(value for values in self.values for value in values)]


def _array(owner: Recorder, dtype: DType, weak: bool) -> Tracer:
    """An array without axes in a trace, 0 where nothing has written it."""
    from zenith.trace.memory import OWN
    from zenith.trace.recorder import resumed
    from zenith.trace.tracer import Tracer

    with resumed(owner):
        zero = {"b": False, "c": 0j, "f": 0.0}.get(dtype.kind, 0)
        (value,) = owner.graph.add(get("literal"), (), {"value": zero, "dtype": dtype}, user_line())
        return Tracer(owner, value, weak, access=OWN)


def number_of_results(found: Sequence[Raised]) -> int:
    """How many further results tell which exception a program raises, and the values in its message."""
    return 1 + sum(len(raised.types) for raised in found)


def raised_in(found: Sequence[Raised], results: Sequence[Any], numpy: Callable[[Any], Any]) -> BaseException | None:
    """The exception that a program's further results tell of; ``numpy`` gives a result as NumPy's array."""
    code = int(numpy(results[0]))
    if not code:
        return None
    start = number_of_results(found[: code - 1])
    raised = found[code - 1]
    return raised.error([numpy(result)[()] for result in results[start : start + len(raised.types)]])


def guarded(recorder: Recorder, results: Sequence[Value]) -> list[Value]:
    """Results of a trace inside of another one, which raise CheckError where the function raises."""
    from zenith.trace.bind import b, graph_value

    raises, found = recorder.raises, list(results)
    for number, raised in enumerate(raises.found, 1):
        wrong = b.eq(raises.code, b.full(number, int64, ()))
        for position, value in enumerate(found):
            everywhere = graph_value(recorder, b.broadcast(wrong, shape=value.shape, axes=()))
            (found[position],) = recorder.graph.add(
                get("error_if"), (value, everywhere), {"why": raised.text}, raised.line
            )
    return found
