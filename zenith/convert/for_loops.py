"""``for`` and comprehensions of converted functions: turns that Python runs, or a loop of the program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from zenith.convert.bodies import Names
from zenith.convert.branches import branch
from zenith.convert.conditions import truth
from zenith.convert.list_items import need_plain_lists
from zenith.convert.lists import GrowingList, list_
from zenith.convert.loop_attempts import MOST_UNROLLED, UNROLLED, attempt, attempt_counting, report
from zenith.convert.loop_carried import TypeChange
from zenith.convert.loop_tracing import Loop
from zenith.convert.statements import Get, Set, Turn, if_, pass_
from zenith.convert.turns import NamedIterator, is_endless, is_own, turns_of
from zenith.errors import TraceError, user_line
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize, size_dim
from zenith.trace.tracer import Tracer

MOST_BRANCHES = 200  # turns over an iterator of Python's, which may be endless, that are branches of the program
PEELED = 2  # turns that are unrolled since types change in them

_END = object()


def named(iterable: object) -> object:
    """What a loop goes over, if that is no call."""
    return NamedIterator(iterable) if isinstance(iterable, Iterator) and not isinstance(iterable, Tracer) else iterable


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
        report("unrolled", "it goes over objects of Python's" if turns is None else "it has few turns")
        items: Iterable[object] = iterable if turns is None else turns
        return _in_python(items, turn, test, own)
    loop = Loop(turns, turn, test, own, frozenset(rebound))
    error = attempt(loop)
    varies = isinstance(turns.count, TracedSize) and turns.count.recorder.varies(turns.count.dim)
    if turns.is_computed or varies:
        error = attempt_counting(loop, error)
        if error is not None:
            raise error
        return None
    if test is not None and type(turns.count) is not int:
        error = attempt_counting(loop, error)
    sure = True  # that the loop has not been left
    for _ in range(PEELED):
        if not isinstance(error, TypeChange) or not (sure and turns.count >= 1):
            break
        turn(turns.item(0))
        turns = turns.after(1)
        loop = replace(loop, turns=turns)
        sure = test is None or truth(test()) is True
        error = attempt(loop) if sure else error
    if sure and type(turns.count) is not int:
        error = attempt_counting(loop, error)
    if error is None:
        return None
    if not (turns.count <= MOST_UNROLLED or is_endless(turns)):
        raise error
    report("unrolled", error)
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
            branch(going, partial(turn, item), pass_, names)
        else:
            turn(item)
