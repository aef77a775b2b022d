"""``if`` of converted functions, and the types of what their statements are given: names to read and to set, turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenith.convert.bodies import Names
from zenith.convert.branches import branch
from zenith.convert.conditions import truth

Get = Callable[[], tuple[object, ...]]
Set = Callable[[tuple[object, ...]], None]
Turn = Callable[[object], None]


def pass_() -> None:
    """The side of a branch that does nothing."""


def if_(
    test: object, then: Callable[[], None], orelse: Callable[[], None] | None, names: Sequence[str], get: Get, set: Set
) -> None:  # fmt: skip
    """``if test: then() else: orelse()``, which change the values of names."""
    known = truth(test)
    if known is not None:
        (then if known else orelse or pass_)()
        return
    branch(test, then, orelse or pass_, Names(tuple(names), get, set))
