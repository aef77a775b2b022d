"""How many turns a loop has at most, by what its conditions say of the integers that it carries."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from zenith.convert.bodies import parent
from zenith.ir.dims import Dim, maximum, symbol
from zenith.ir.graph import Value
from zenith.trace.conditions import step_of
from zenith.trace.numbers import carried_name, formula_of, is_carried
from zenith.trace.recorder import Recorder
from zenith.trace.size_relations import Relation
from zenith.trace.sizes import size_dim
from zenith.trace.tracer import Tracer

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class KnownTurns:
    """What is known of a loop's turns: how many there are, or are at most; what sizes are ``most`` when one begins."""

    exact: Dim | None
    at_most: Dim | None
    most: Mapping[str, Dim]


@dataclass(frozen=True)
class CarriedInteger:
    """An integer that a loop carries: before the loop, when a turn begins, and at the end of that."""

    start: object
    begin: Value
    end: object


def names_of(integers: Iterable[Value]) -> dict[Value, str]:
    """Symbols by which conditions are read that compare integers which a loop carries."""
    return {value: carried_name(next(_NUMBERS)) for value in integers}


def limits(known: Iterable[Relation]) -> dict[str, Dim]:
    """What sizes and numbers are at most, by relations in which they stand alone."""
    found: dict[str, Dim] = {}
    for left, order, right in known:
        if order in (">", ">="):
            left, order, right = right, order.replace(">", "<"), left
        room = right - left - (order == "<")
        names = [str(m[0]) for m, c in room.terms if c == -1 and len(m) == 1 and isinstance(m[0], str)]
        if order in ("<", "<=") and len(names) == 1:
            limit = room + symbol(names[0])
            if not parent().varies(limit) and not is_carried(limit):
                found[names[0]] = limit
    return found


def most_turns(
    recorder: Recorder, integers: Iterable[CarriedInteger], most: Mapping[str, Dim], last: Mapping[str, Dim],
    unset: Collection[Value],
) -> Dim | None:  # fmt: skip
    """How many turns a loop has at most; None where nothing says so.

    The numbers of ``most`` are the largest with which a turn begins, those of ``last`` with which one does that is
    followed by another; such a one leaves the flags ``unset``.
    """
    for integer in integers:
        name = recorder.conditions.numbers.get(integer.begin, "")
        for known, more in ((most, 1), (last, 2)):
            found = _turns_until(integer, known[name], unset) if name in known else None
            if found is not None:
                return found + more
    return None


def _turns_until(integer: CarriedInteger, limit: Dim, unset: Collection[Value]) -> Dim | None:
    """What an integer that grows from turn to turn can grow by, up to a limit: -1 where it begins behind it."""
    start, end = integer.start, integer.end
    begun = formula_of(start) if isinstance(start, Tracer) else size_dim(start)
    if begun is None or not isinstance(end, Tracer) or (step_of(end, integer.begin, unset) or 0) < 1:
        return None
    return maximum(limit - begun, -1)
