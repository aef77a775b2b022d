"""``try`` with handlers, and ``with`` whose context may look at an exception: the program has none of them.

What NumPy or Python raises where values are wrong, it goes on with; where a handler is for such an exception, the
trace ends with an error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from types import FunctionType, GeneratorType
from typing import Any, TypeVar

import numpy as np

from zenith import tree
from zenith.convert.bodies import OF_BODY
from zenith.convert.converted import is_users
from zenith.errors import is_library
from zenith.ir.graph import Graph
from zenith.trace.operators import QUOTIENTS
from zenith.trace.recorder import Recorder, current_recorder

T = TypeVar("T")


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


def _of_math(names: str) -> frozenset[str]:
    return frozenset(f"math.{name}" for name in names.split())


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
