"""What converted functions call: loops, branches and conditions.

They run as Python's do where all is known while tracing, and become loops and branches of the program elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from zenith.convert.bodies import Names, snapshot
from zenith.convert.branches import branch
from zenith.convert.callees import callee, iterator
from zenith.convert.chosen import Choices
from zenith.convert.comparisons import compared
from zenith.convert.conditions import truth
from zenith.convert.expressions import (
    all_of,
    and_,
    any_of,
    choose,
    compare,
    contains,
    identity,
    is_one,
    is_truth,
    known,
    not_,
    or_,
    read,
)
from zenith.convert.list_items import need_plain_lists
from zenith.convert.list_names import stacking, with_lists
from zenith.convert.lists import GrowingList, extended, list_
from zenith.convert.lookups import index_of, item
from zenith.convert.loops import Loop, TypeChange, convert_loop
from zenith.convert.makers import brackets
from zenith.convert.optional import is_none
from zenith.convert.python_functions import class_of
from zenith.convert.raises import Catching, assertion_error, entered, leaving, raises, raising, returned
from zenith.convert.sequences import lazily, next_of
from zenith.convert.texts import formatted
from zenith.convert.turns import NamedIterator, is_endless, is_own, turns_of
from zenith.convert.values import Unset
from zenith.errors import TraceError, ZenithError, user_line
from zenith.trace.recorder import LoopReport, Recorder, current_recorder
from zenith.trace.sizes import TracedSize, size_dim
from zenith.trace.tracer import Tracer

UNROLLED = 8  # turns that are always unrolled
MOST_UNROLLED = 5_000  # turns that are unrolled in one trace where loops cannot be the program's
MOST_BRANCHES = 200  # turns over an iterator of Python's, which may be endless, that are branches of the program
PEELED = 2  # turns that are unrolled since types change in them

_END = object()

Get = Callable[[], tuple[object, ...]]
Set = Callable[[tuple[object, ...]], None]
Turn = Callable[[object], None]

__all__ = [
    "Catching", "all_of", "and_", "any_of", "assertion_error", "brackets", "callee", "choose", "class_of", "compare",
    "compared", "contains", "entered", "extended", "for_", "formatted", "global_", "identity", "if_", "index_of",
    "is_none", "is_one", "is_truth", "item", "iterator", "known", "lazily", "leaving", "list_", "listed", "named",
    "next_of", "not_", "or_", "raises", "raising", "read", "returned", "unset", "until_else", "while_",
]  # fmt: skip


def unset(name: str) -> Unset:
    """The value of a name before anything has set it."""
    return Unset(name)


def until_else(name: str) -> Unset:
    """The value of a name that is next read where a loop's ``break`` or ``else`` has set it."""
    return Unset(name, until_else=True)


def named(iterable: object) -> object:
    """What a loop goes over, if that is no call."""
    return NamedIterator(iterable) if isinstance(iterable, Iterator) and not isinstance(iterable, Tracer) else iterable


def _pass() -> None:
    """The side of a branch that does nothing."""


def _nothing() -> Callable[[], None]:
    """What forgets no assumptions, outside of a trace."""
    return _pass


def if_(
    test: object, then: Callable[[], None], orelse: Callable[[], None] | None, names: Sequence[str], get: Get, set: Set
) -> None:  # fmt: skip
    """``if test: then() else: orelse()``, which change the values of names."""
    known = truth(test)
    if known is not None:
        (then if known else orelse or _pass)()
        return
    branch(test, then, orelse or _pass, Names(tuple(names), get, set))


def while_(
    test: Callable[[], object],
    turn: Callable[[], None],
    names: Sequence[str],
    get: Get,
    set: Set,
    rebound: Sequence[str],
) -> None:
    """``while test(): turn()``: in Python as long as the condition is known while tracing, if that is not for long.

    A condition that is known from sizes alone would fix them, or how often it holds: such a loop is one of the program.
    """
    loop = Loop(None, turn, test, Names(tuple(names), get, set), frozenset(rebound))
    recorder = current_recorder()
    turns, tried = 0, recorder is None
    while True:
        forget = _nothing if recorder is None else recorder.assumptions()
        before = _state(recorder, get)
        going = test()
        known = truth(going)
        asked, wrote, assigned = _compared(before, _state(recorder, get))
        if known is None or (not tried and (asked or turns == UNROLLED)):
            after, changed = snapshot(get()), wrote or assigned
            again = changed and asked and not wrote and known is not None  # an answer of these sizes alone
            remember = forget() if again or not changed else _pass
            if again:
                set(before[2])
            tail = _entered(loop) if again else _rotated(loop, going) if changed else loop
            error = _attempt_counting(tail, _attempt(tail))
            if error is None:
                return
            if known is None:
                raise error
            set(after)
            remember()
            tried = True
            _report("unrolled", error)
        if not known:
            break
        if recorder is not None and turns >= MOST_UNROLLED:
            raise TraceError(f"a while loop has more than {MOST_UNROLLED} turns while it is traced", where=user_line(),
                             fix="let its condition depend on arrays, or its body on nothing but arrays")  # fmt: skip
        turn()
        turns += 1


def _state(recorder: Recorder | None, get: Get) -> tuple[int, int, tuple[object, ...]]:
    """How many questions about sizes and writes there have been, and the values of names."""
    return (0, 0, ()) if recorder is None else (len(recorder.guards), recorder.writes, snapshot(get()))


def _compared(
    before: tuple[int, int, tuple[object, ...]], after: tuple[int, int, tuple[object, ...]]
) -> tuple[bool, bool, bool]:
    """Whether a condition has asked for sizes, whether it has written into arrays, and assigned names."""
    assigned = any(a is not b for a, b in zip(before[2], after[2], strict=True))
    return before[0] != after[0], before[1] != after[1], assigned


def _rotated(loop: Loop, going: object) -> Loop:
    """A loop whose condition changes something: it is computed at the end of each turn, and carried to the next one."""

    def turn(test: Callable[[], object]) -> object:
        loop.turn()
        return test()

    return _carrying(loop, going, turn)


def _entered(loop: Loop) -> Loop:
    """The same where the first answer is not known for all sizes: a turn begins with the condition."""

    def turn(test: Callable[[], object]) -> object:
        going = test()
        if_(going, loop.turn, None, loop.names.names, loop.names.get, loop.names.set)
        return going

    return replace(_carrying(loop, True, turn), enters=True)


def _carrying(loop: Loop, going: object, step: Callable[[Callable[[], object]], object]) -> Loop:
    """A loop that carries whether it goes on, which a step of it, given the condition, returns."""

    def get() -> tuple[object, ...]:
        return (*loop.names.get(), going)

    def store(values: tuple[object, ...]) -> None:
        nonlocal going
        *rest, going = values
        loop.names.set(tuple(rest))

    def turn() -> None:
        nonlocal going
        assert loop.test is not None
        going = step(loop.test)

    turn.runs = (loop.turn, loop.test)  # type: ignore[attr-defined]
    names = Names((*loop.names.names, "_zenith_going"), get, store)
    return Loop(None, turn, lambda: going, names, loop.rebound | {"_zenith_going"})


def for_(
    iterable: Iterable[object], turn: Turn, test: Callable[[], object] | None, names: Sequence[str], get: Get,
    set: Set, rebound: Sequence[str], targets: Sequence[str],
) -> None:  # fmt: skip
    """``for item in iterable: turn(item)``, as long as ``test()`` holds after a turn."""
    turns, own = turns_of(iterable), Names(tuple(names), get, set)
    lists = () if turns is None else turns.lists
    counts = [rows.size for rows in lists]
    _for(iterable if turns is None else turns, turn, test, own, rebound)
    if any(r.rows is None or size_dim(r.size) != size_dim(n) for r, n in zip(lists, counts, strict=True)):
        need_plain_lists()  # Python goes over what turns append, too


def _for(
    iterable: Iterable[object], turn: Turn, test: Callable[[], object] | None, own: Names, rebound: Sequence[str]
) -> None:
    """The same over what does not become longer."""
    turns = turns_of(iterable)
    if turns is None or current_recorder() is None or (type(turns.count) is int and turns.count <= UNROLLED):
        _report("unrolled", "it goes over objects of Python's" if turns is None else "it has few turns")
        items: Iterable[object] = iterable if turns is None else turns
        return _in_python(items, turn, test, own)
    loop = Loop(turns, turn, test, own, frozenset(rebound))
    error = _attempt(loop)
    varies = isinstance(turns.count, TracedSize) and turns.count.recorder.varies(turns.count.dim)
    if turns.is_computed or varies:
        error = _attempt_counting(loop, error)
        if error is not None:
            raise error
        return None
    if test is not None and type(turns.count) is not int:
        error = _attempt_counting(loop, error)
    sure = True  # that the loop has not been left
    for _ in range(PEELED):
        if not isinstance(error, TypeChange) or not (sure and turns.count >= 1):
            break
        turn(turns.item(0))
        turns = turns.after(1)
        loop = replace(loop, turns=turns)
        sure = test is None or truth(test()) is True
        error = _attempt(loop) if sure else error
    if sure and type(turns.count) is not int:
        error = _attempt_counting(loop, error)
    if error is None:
        return None
    if not (turns.count <= MOST_UNROLLED or is_endless(turns)):
        raise error
    _report("unrolled", error)
    return _in_python(turns, _counted(turn, error), test, own)


def listed(
    iterable: Iterable[object], make: Callable[[object], object], keep: Callable[[object], object] | None
) -> list[object]:
    """``[make(item) for item in iterable if keep(item)]``."""
    found = list_()
    if not isinstance(found, GrowingList):
        return [make(item) for item in turns_of(iterable) or iterable if keep is None or keep(item)]

    def turn(item: object) -> None:
        if_(keep is None or keep(item), lambda: found.append(make(item)), None, *no_names)

    turn.runs = (make, keep) if keep is not None else (make,)  # type: ignore[attr-defined]
    no_names: tuple[Sequence[str], Get, Set] = (), tuple, lambda values: None
    for_(iterable, turn, None, *no_names, (), ())
    return found


def _counted(turn: Turn, error: Exception) -> Turn:
    """A turn of a loop that could not be the program's; the error of why, where there are too many of all loops."""

    def counted(*item: object) -> None:
        recorder = current_recorder()
        if recorder is not None:
            recorder.unrolled[0] += 1
            if recorder.unrolled[0] > MOST_UNROLLED:
                raise error
        turn(*item)

    counted.runs = (turn,)  # type: ignore[attr-defined]
    return counted


def _in_python(iterable: Iterable[object], turn: Turn, test: Callable[[], object] | None, names: Names) -> None:
    """A loop turn by turn; from where its further condition is the program's on, each turn is a branch."""
    items, recorder, branches = iter(iterable), current_recorder(), 0
    while True:
        going = True if test is None else test()
        known = truth(going)
        item, wrote = _END, 0 if recorder is None else recorder.writes
        if known is not False:
            item = next(items, _END)  # which else stays in the iterator for who goes on with it
        if item is _END:
            return
        if known is None:
            if not is_own(items, iterable) or (recorder and recorder.writes > wrote):
                raise TraceError("values decide where a loop leaves an iterator, which others may go on with",
                                 where=user_line(), fix="go over a list of it: for x in list(iterator)")  # fmt: skip
            branches += 1
            if branches > MOST_BRANCHES and is_endless(iterable):
                raise TraceError(f"a loop that values leave takes more than {MOST_BRANCHES} items of an iterator",
                                 where=user_line(), fix="go over a range, an array or a list")  # fmt: skip
            branch(going, partial(turn, item), _pass, names)
        else:
            turn(item)


def _attempt(loop: Loop) -> Exception | None:
    """Record a loop; None where that worked, else the error, with all as before."""
    chosen = Choices()
    error = _recorded(loop, chosen)
    if error is None:
        chosen.note()
    return error


def _recorded(loop: Loop, chosen: Choices) -> Exception | None:
    """The same; ``chosen`` takes the lists and dicts that it gives names."""
    recorder = current_recorder()
    assert recorder is not None
    start, forget, reports = loop.names.values(), recorder.assumptions(), len(recorder.loops)
    checks = len(recorder.at_end)
    kind = ""

    def record() -> None:
        nonlocal kind
        kind = convert_loop(replace(loop, names=with_lists(loop.names, loop.rebound)), chosen)

    def start_again() -> None:
        loop.names.set(start)
        forget()
        del recorder.loops[reports:]
        del recorder.at_end[checks:]

    try:
        stacking(record, lambda: start_again)
    except Exception as error:
        start_again()
        return error
    _report(kind, _WHY[kind])
    return None


def _attempt_counting(loop: Loop, error: Exception | None) -> Exception | None:
    """The same where sizes change, which the loop then counts; ``error`` is that of the attempt without."""
    return _attempt(replace(loop, counts_sizes=True)) if isinstance(error, TypeChange) else error


_WHY = {"scan": "the number of its turns is known when it begins", "while_loop": "values decide when it ends"}


def _report(kind: str, why: str | Exception) -> None:
    """Note for ``explain()`` what a loop has become, and why."""
    recorder = current_recorder()
    if recorder is None:
        return
    if isinstance(why, Exception):
        why = why.what if isinstance(why, ZenithError) else f"{type(why).__name__}: {why}"
    recorder.loops.append(LoopReport(kind, why, user_line()))


def global_(name: str) -> None:
    """TraceError where a function assigns a global name while it is traced: it would happen once, not in each call."""
    if current_recorder() is not None:
        raise TraceError(
            f"the function assigns the global name {name}, which would happen once, and not in each call",
            where=user_line(), fix=f"return the value, and assign {name} where the function is called",
        )  # fmt: skip
