"""Expressions of converted functions: conditions, comparisons, and questions to what a name holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container
from functools import partial
from typing import TypeVar, cast

from zenith.convert.bodies import Names, parent
from zenith.convert.branches import branch
from zenith.convert.conditions import as_truth, facts, note_facts, truth
from zenith.convert.list_items import need_plain_lists
from zenith.convert.optional import Optional, note_present, present
from zenith.convert.typing import Function, Integer, Thunk
from zenith.convert.values import Unset, holds_traced, negated
from zenith.errors import TraceError, user_line
from zenith.trace.memory import LISTED
from zenith.trace.operators import python_number
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer

T = TypeVar("T")


def read(value: T) -> T:
    """A value whose identity or class is asked for; TraceError for that of a name that is not set in every case."""
    if isinstance(value, (Unset, Optional)):
        value.refuse()
    return value


def known(value: T) -> T:
    """A value that patterns with classes are compared with; TraceError where values of the program are in it.

    Python asks what they are, and not what they stand for.
    """
    if holds_traced(read(value)):
        raise TraceError(
            "a pattern with a class and what is in it is compared with values of the program",
            where=user_line(), fix="ask by isinstance, or match the class alone: case float():",
        )  # fmt: skip
    return value


def identity(value: T) -> T:
    """A value that is compared with another one by ``is``: items of a list of the program's are made anew."""
    if isinstance(value, Tracer) and value.memory.access == LISTED:
        need_plain_lists()
    return read(value)


def is_one(one: object, other: object) -> bool:
    """``one is other``; TraceError for arrays that values decide to be one or two."""
    if one is not other and isinstance(one, Tracer) and isinstance(other, Tracer):
        memory = other.memory
        if memory is not one.memory and memory in one.memory.related():
            raise TraceError("values decide whether two names have one array", where=user_line(),
                             fix="compare what is in them: numpy.array_equal(a, b)")  # fmt: skip
    return one is other


def is_truth(one: object, other: object) -> bool | Tracer:
    """``one is other``, one of which is True or False: of a bool of Python's that the program computes its truth."""
    value, truth = (read(one), other) if isinstance(other, bool) else (read(other), one)
    if not (isinstance(value, Tracer) and value.weak and value.dtype.kind == "b"):
        return one is other
    return value if truth else not_(value)


def not_(value: object) -> bool | Tracer:
    """``not value``."""
    known = truth(value)
    if known is not None:
        return not known
    found = negated(as_truth(value))
    for answer in (True, False):
        note_present(found, not answer, present(value, answer))
    return found


def and_(first: object, *rest: Thunk) -> object:
    """``first and second() and ...``: what follows is computed only where what is in front of it is true."""
    return _connected(True, _as_it_is, first, *rest)


def or_(first: object, *rest: Thunk) -> object:
    """``first or second() or ...``: what follows is computed only where what is in front of it is false."""
    return _connected(False, _as_it_is, first, *rest)


def all_of(first: object, *rest: Thunk) -> object:
    """``and`` where only its truth counts: that of numbers of different types."""
    return _connected(True, as_truth, first, *rest)


def any_of(first: object, *rest: Thunk) -> object:
    """``or`` where only its truth counts."""
    return _connected(False, as_truth, first, *rest)


def _as_it_is(value: T) -> T:
    return value


def _connected(goes_on: bool, kept: Callable[[object], object], first: object, *rest: Thunk) -> object:
    """The first value whose truth is not ``goes_on``, else the last one; ``kept`` is what a value becomes."""
    if not rest:
        return kept(first)
    known = truth(first)
    if known is (not goes_on):
        return kept(first)

    def further() -> object:
        return _connected(goes_on, kept, rest[0](), *rest[1:])

    if known is not None:
        return further()
    sizes, found, numbers = list(parent().last), facts(first, goes_on), present(first, goes_on)

    last: object = None

    def noted() -> object:
        nonlocal last
        last = further()
        found.extend(facts(last, goes_on))
        numbers.extend(present(last, goes_on))
        return last

    noted.runs = rest  # type: ignore[attr-defined]
    sides = [noted, lambda: kept(first)]
    result = _if(first, *(sides if goes_on else sides[::-1]))
    if kept is as_truth and last is (not goes_on):
        return last  # in either case
    note_facts(result, goes_on, found, sizes)
    note_present(result, goes_on, numbers)
    return result


def choose(test: object, then: Callable[[], T], orelse: Callable[[], T]) -> T:
    """``then() if test else orelse()``."""
    known = truth(test)
    if known is not None:
        return then() if known else orelse()
    return _if(test, then, orelse)


def _if(test: object, then: Callable[[], T], orelse: Callable[[], T]) -> T:
    """The value of one of two expressions, of which only that one is computed when the program runs."""
    what = "the value of an expression"
    value: object = Unset(what)

    def store(values: tuple[object, ...]) -> None:
        nonlocal value
        (value,) = values

    def side(make: Thunk) -> Callable[[], None]:
        def run() -> None:
            nonlocal value
            value = make()

        run.runs = (make,)  # type: ignore[attr-defined]
        return run

    branch(test, side(then), side(orelse), Names((what,), lambda: (value,), store))
    if isinstance(value, Unset):
        value.refuse()
    return cast(T, value)


def compare(first: object, *steps: Function) -> object:
    """``first < second() < third()``: pairs of a comparison and its right operand."""
    comparison, operand, *rest = steps
    second = operand()
    result = comparison(first, second)
    return and_(result, lambda: compare(second, *rest)) if rest else result


def contains(item: object, container: Container[object]) -> object:
    """``item in container``, a bool of Python's; the item may be traced, and the container hold numbers."""
    return python_number(_contains(item, container))


def _contains(item: object, container: Container[object]) -> object:
    read(item)
    if isinstance(container, Tracer) and container.ndim:
        return operator.eq(container, item).any()
    varies = isinstance(item, TracedSize) and item.recorder.varies(item.dim)
    if not (varies or (isinstance(item, Tracer) and not item.ndim)):
        return item in container
    number = cast(Integer, item)
    if isinstance(container, range):
        if not container:
            return False
        least, most = sorted((container[0], container[-1]))
        inside = and_(number >= least, lambda: number <= most)
        return and_(inside, lambda: (number - least) % abs(container.step) == 0)
    if isinstance(container, (tuple, list, set, frozenset, dict)):
        return or_(False, *(partial(operator.eq, number, other) for other in container))
    return item in container
