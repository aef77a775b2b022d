"""``raise`` and ``assert`` in loops and branches of the program, which then raises the exception."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from types import FunctionType, GeneratorType
from typing import Any, TypeVar, cast

import numpy as np

from zenith import tree
from zenith.convert.bodies import OF_BODY
from zenith.convert.converted import is_users
from zenith.convert.values import Unset, is_plain_sequence
from zenith.errors import is_library, user_line
from zenith.ir.graph import Graph
from zenith.ir.types import int64
from zenith.trace.bind import b, graph_value
from zenith.trace.memory import write
from zenith.trace.operators import QUOTIENTS
from zenith.trace.raises import Raised, Shown
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.sizes import TracedSize
from zenith.trace.stands import WritingBody
from zenith.trace.tracer import Tracer

T = TypeVar("T")


def raises(make: Callable[[], object], cause: Callable[[], object] | None = None) -> object:
    """Have the program raise the exception that ``make`` gives; the exception where tracing can raise it, else None.

    That is so where tracing itself has come to it, no value is in its message, and no array of the caller's has to
    change before. TraceError where a ``try`` with handlers is around it.
    """
    recorder = current_recorder()
    if recorder is None:
        return _caused(make(), *_evaluated(cause))
    inside = isinstance(recorder, WritingBody)
    recorder.raises.ends = not inside
    if inside and recorder.raises.catching:
        raise recorder.raises.refuse(
            "a raise inside of try depends on values that exist only when the program runs",
            "choose by if what the handler does, or let the exception leave the function",
        )
    with recorder.raises.shown() as shown:
        made, causes = make(), _evaluated(cause)
        raised = _raised(made, causes[0] if causes else None, shown)
    if not inside and (recorder.raises.catching or not (shown or recorder.changes_arguments)):
        return _caused(make(), *_evaluated(cause)) if shown else _caused(made, *causes)
    _record(recorder, raised, shown)
    leaving()
    return None


def _evaluated(cause: Callable[[], object] | None) -> tuple[object, ...]:
    """What an exception is raised from, if that is said: it may be None."""
    return () if cause is None else (cause(),)


def _caused(found: object, *causes: object) -> object:
    """An exception with what it is raised from."""
    made = found() if isinstance(found, type) else found
    for cause in causes:
        if isinstance(made, BaseException):
            made.__cause__ = cast("BaseException | None", cause() if isinstance(cause, type) else cause)
    return made


def leaving() -> None:
    """Note that what is being traced leaves the function: what it does not set, nothing reads."""
    recorder = current_recorder()
    if isinstance(recorder, WritingBody):
        recorder.diverged = True


def returned(result: object) -> object:
    """What a function returns, whose caller goes on; None where the function always raises an exception."""
    if isinstance(result, Unset) and result.is_guarded:
        return None
    recorder = current_recorder()
    if isinstance(recorder, WritingBody):
        recorder.diverged = False
    return result


def _record(recorder: Recorder, raised: Raised, shown: list[Tracer]) -> None:
    """Write the number of an exception and the values in its message, unless there has been one before."""
    known = recorder.raises
    number = known.number(raised, _owner(recorder))
    assert known.code is not None
    recorder.raises.ends = False
    before = recorder.resolve(known.code)
    is_first = _literal(before) == 0
    earlier = None if is_first else b.ne(before, b.full(0, int64, ()))
    for array, value in [(known.code, b.full(number, int64, ())), *zip(known.values[number - 1], shown, strict=True)]:
        kept = value if earlier is None else b.where(earlier, recorder.resolve(array), value)
        write(array, graph_value(recorder, kept))
    known.certain.add(_key(recorder.resolve(known.code)))


def _literal(code: Tracer) -> int | None:
    """The number of an exception, if that is known."""
    node = code.recorder.graph.node(code.memory.value.node)
    return int(node.params["value"]) if node.primitive.name == "literal" else None


def _key(code: Tracer) -> tuple[int, int]:
    return id(code.recorder), code.memory.value.node


def _raised(found: object, cause: object, shown: list[Tracer]) -> Raised:
    """What is raised, an exception or its class, with marks in the place of values."""
    made = found() if isinstance(found, type) else found
    cause = cause() if isinstance(cause, type) else cause
    if not isinstance(made, BaseException) or not isinstance(cause, BaseException | None):
        raise TypeError("exceptions must derive from BaseException")  # as Python's
    args = tuple(_marked(value, shown) for value in made.args)
    attributes = tuple((k, _marked(v, shown)) for k, v in vars(made).items())
    types, weak = tuple(t.type.dtype for t in shown), tuple(t.weak for t in shown)
    return Raised(type(made), args, attributes, cause, user_line(), types, weak)


def _marked(found: object, shown: list[Tracer]) -> object:
    """Arguments and attributes of an exception; traced values are collected, of arrays the type is what remains."""
    if isinstance(found, TracedSize):
        ends = found.recorder.raises.ends
        found = found.recorder.hint(found.dim) if ends else found.as_array()
    if isinstance(found, Tracer):
        if found.ndim:
            return f"<{found.type}>"
        shown.append(found)
        return Shown(len(shown) - 1)
    if is_plain_sequence(found):
        return type(found)(_marked(item, shown) for item in found)
    return found


def _owner(recorder: Recorder) -> Recorder:
    """The trace around loops and branches."""
    while isinstance(recorder, WritingBody) and recorder.parent is not None:
        recorder = recorder.parent
    return recorder


class Catching:
    """What a ``try`` is in whose handlers catch some exceptions.

    TraceError for operations that raise such ones in NumPy or Python where values are wrong: the program has no
    handlers, and goes on with nan and the like.
    """

    def __init__(self, kinds: Callable[[], Iterable[object]]) -> None:
        self._kinds, self._recorder, self._before = kinds, current_recorder(), set[str]()
        self._first = 0 if self._recorder is None else len(self._recorder.graph)

    def __enter__(self) -> None:
        if self._recorder is not None:
            self._recorder.raises.catching += 1
            self._before, self._recorder.raises.called = self._recorder.raises.called, set()

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if self._recorder is None:
            return
        raises = self._recorder.raises
        raises.catching, raises.ends = raises.catching - 1, False
        if kind is None:
            self._check(self._recorder)
        elif getattr(error, OF_BODY, False) and any(map(partial(_is_for, error=kind), self._handled())):
            raise raises.refuse(
                f"a handler catches the {kind.__name__} of a loop or branch, which values decide about",
                "choose by if before it, or call that part outside of the compiled function",
            )
        raises.called |= self._before

    def _handled(self) -> list[object]:
        """The classes of the exceptions that have handlers."""
        return tree.flatten(list(self._kinds()))[0]

    def _check(self, recorder: Recorder) -> None:
        made = {*_operations(recorder.graph, self._first), *recorder.raises.called}
        for kind in self._handled() if made else ():
            known = [names for error, names in _RAISING if _catches(kind, error)]
            known += [names for error, names in _OF_NUMBERS if _is_for(kind, error)]
            found = next((n for names in known for n in sorted(names & made)), None)
            if found is not None:
                raise recorder.raises.refuse(
                    f"what is inside of try computes {found}, which may raise an exception that a handler should see, "
                    "and values decide that when the program runs",
                    "choose by if before it, or call that part outside of the compiled function",
                )


def _of_math(names: str) -> frozenset[str]:
    return frozenset(f"math.{name}" for name in names.split())


class _Entered(AbstractContextManager[T]):
    """A context of the user's around what is traced; as in :class:`Catching`, the program raises nothing in it."""

    def __init__(self, context: AbstractContextManager[T], recorder: Recorder) -> None:
        self._context, self._raises = context, recorder.raises

    def __enter__(self) -> T:
        found = self._context.__enter__()
        self._raises.catching += 1
        return found

    def __exit__(self, *error: Any) -> bool | None:
        self._raises.catching -= 1
        return self._context.__exit__(*error)


def entered(context: AbstractContextManager[T]) -> AbstractContextManager[T]:
    """What a ``with`` enters: of contexts that may look at an exception one that says so."""
    recorder = current_recorder()
    return context if recorder is None or not _looks(context) else _Entered(context, recorder)


def _looks(context: object) -> bool:
    """Whether a context is the user's, or one of the library that swallows exceptions."""
    generator, leaving = getattr(context, "gen", None), getattr(type(context), "__exit__", None)
    if isinstance(generator, GeneratorType):
        return not is_library(generator.gi_code.co_filename)
    swallows = isinstance(context, (contextlib.suppress, contextlib.ExitStack))
    return swallows or (isinstance(leaving, FunctionType) and is_users(leaving))


_RAISING: tuple[tuple[type[BaseException], frozenset[str]], ...] = (
    (np.linalg.LinAlgError, frozenset({"cholesky", "solve", "inv", "lstsq", "eigh", "svd", "eigvalsh", "svdvals"})),
    (IndexError, frozenset({"take", "gather", "dynamic_slice", "dynamic_update_slice", "scatter_set", "scatter_add"})),
    (ZeroDivisionError, frozenset({"div", "floor_divide", "remainder"})),
    (FloatingPointError, frozenset({"div", "log", "sqrt", "exp", "power", "mul", "add", "sub"})),
    (OverflowError, frozenset({"exp", "power"})),
    (ValueError, frozenset({"sqrt", "log", "arcsin", "arccos"})),  # of Python's math
)
_OF_NUMBERS: tuple[tuple[type[BaseException], frozenset[str]], ...] = (
    (ZeroDivisionError, frozenset(f"a {name} of Python's numbers" for name in QUOTIENTS)),
    (
        ValueError,
        _of_math("sqrt log log2 log10 log1p asin acos acosh atanh fmod gamma lgamma pow sin cos tan floor ceil"),
    ),
    (OverflowError, _of_math("exp expm1 exp2 sinh cosh gamma lgamma pow hypot floor ceil trunc")),
)


def _catches(kind: object, error: type[BaseException]) -> bool:
    """Whether a handler is for an exception; handlers for all of them are for those of arrays."""
    if kind in (Exception, BaseException):
        return error in (np.linalg.LinAlgError, IndexError)
    return _is_for(kind, error)


def _is_for(kind: object, error: type[BaseException]) -> bool:
    """Whether a handler of some exceptions is for this one."""
    return isinstance(kind, type) and issubclass(error, kind)


def _operations(graph: Graph, first: int) -> Iterator[str]:
    """The names of a graph's operations from a number on, and of those in its loops and branches."""
    for number in range(first, len(graph)):
        node = graph.node(number)
        yield node.primitive.name
        for body in node.bodies:
            yield from _operations(body, 0)


def assertion_error(*message: object) -> AssertionError:
    """What ``assert`` raises."""
    return AssertionError(*message)


def raising() -> bool | Tracer:
    """Whether a function that has been called has raised an exception of the program."""
    recorder = current_recorder()
    if recorder is None or recorder.raises.code is None:
        return False
    code = recorder.resolve(recorder.raises.code)
    if (known := _literal(code)) is not None or _key(code) in recorder.raises.certain:
        return known != 0
    if code.recorder.graph.node(code.memory.value.node).primitive.name == "input":
        return False  # since the trace of this body began there was none
    return b.ne(code, b.full(0, int64, ()))
