"""Conditions: whether they hold, where that is known while tracing, and what they say of sizes where they hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import cast

import numpy as np

from zenith.convert.bodies import parent
from zenith.convert.lists import sized_list
from zenith.errors import ValueTypeError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.types import ArrayType, int64
from zenith.trace.conditions import carried_formula, facts_of
from zenith.trace.numbers import is_carried
from zenith.trace.size_relations import Relation, VaryingSize
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer


def asked(test: object) -> object:
    """What is asked in a condition: of a list of the program's, how many items it has."""
    stacked = sized_list(test)
    return test if stacked is None else stacked.size


def truth(test: object) -> bool | None:
    """Whether a condition holds, where that is known while tracing; None for one that the program computes."""
    test = asked(test)
    if not isinstance(test, Tracer):
        try:
            return bool(test)
        except VaryingSize:  # of a size that the program computes, or of a turn
            return None
    if test.ndim:
        raise ValueTypeError(
            "the truth of an array with axes is ambiguous", where=user_line(), types=(test.type,),
            fix="use numpy.any or numpy.all of it, or numpy.where to choose elements",
        )  # fmt: skip
    known = test._of_sizes()
    return None if known is None else bool(known)


def as_truth(test: object) -> bool | Tracer:
    """``bool(test)``, also where the program computes it."""
    test = asked(test)
    known = truth(test)
    if known is not None:
        return known
    array = test.as_array() if isinstance(test, TracedSize) else test
    assert isinstance(array, Tracer)
    return array if array.dtype.kind == "b" else cast(Tracer, np.not_equal(array, 0))


def facts(test: object, answer: bool) -> list[Relation]:
    """What a condition with this answer says of sizes."""
    test = asked(test)
    if isinstance(test, TracedSize):
        return test.asked.nonzero(test.dim) if answer else []
    return facts_of(test, answer) if isinstance(test, Tracer) and not test.ndim else []


@contextmanager
def granted(test: object, answer: bool) -> Iterator[None]:
    """What a condition with this answer says of sizes is known within the block."""
    with ExitStack() as known:
        for left, order, right in facts(test, answer):
            if not is_carried(left - right):
                known.enter_context(parent().granted(left, order, right))
        yield


def note_facts(test: object, answer: bool, found: Iterable[Relation], known: Collection[str]) -> None:
    """Note what a condition of several parts says of sizes; of those that only a part knows nothing."""
    if isinstance(test, Tracer):
        recorder = parent()
        own = recorder.last.keys() - set(known)
        kept = tuple(r for r in found if not (r[0].symbols() | r[2].symbols()) & own)
        recorder.conditions.implied[test.value] = answer, kept


def note_choice(value: object, test: Tracer, no: object, yes: object) -> None:
    """Note what a value says that a branch gives: that of one side, or of the other one where the test holds.

    A flag says what the test says; an integer is one of two formulas.
    """
    known = parent().conditions
    if yes is True or no is False:
        note_facts(value, yes is not True, facts(test, yes is not True), parent().last)
    if yes is True and isinstance(value, Tracer):
        known.flags[value.value] = test.value
    if known.numbers and isinstance(value, Tracer) and value.type == ArrayType(int64, ()):
        known.chosen[value.value] = test.value, (_formula(no), _formula(yes))


def _formula(value: object) -> Dim | None:
    return carried_formula(value) if isinstance(value, Tracer) else dim(value) if type(value) is int else None
