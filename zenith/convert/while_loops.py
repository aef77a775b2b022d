"""``while`` of converted functions: turns that Python runs while the condition is known, or a loop of the program.

A condition that changes something is computed once for each turn, so that such a loop carries whether it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from zenith.convert.bodies import Names, snapshot
from zenith.convert.conditions import truth
from zenith.convert.loop_attempts import MOST_UNROLLED, UNROLLED, attempt, attempt_counting, report
from zenith.convert.loop_tracing import Loop
from zenith.convert.statements import Get, Set, if_, pass_
from zenith.errors import TraceError, user_line
from zenith.trace.recorder import Recorder, current_recorder


def _nothing() -> Callable[[], None]:
    """What forgets no assumptions, outside of a trace."""
    return pass_


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
            remember = forget() if again or not changed else pass_
            if again:
                set(before[2])
            tail = _entered(loop) if again else _rotated(loop, going) if changed else loop
            error = attempt_counting(tail, attempt(tail))
            if error is None:
                return
            if known is None:
                raise error
            set(after)
            remember()
            tried = True
            report("unrolled", error)
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
