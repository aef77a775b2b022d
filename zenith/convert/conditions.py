"""Conditions: whether they hold, where that is known while tracing, and what they say of sizes where they hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from zenith.convert.bodies import parent
from zenith.errors import ValueTypeError, user_line
from zenith.trace.numbers import facts_of
from zenith.trace.size_relations import Relation, VaryingSize
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer


def truth(test: object) -> bool | None:
    """Whether a condition holds, where that is known while tracing; None for one that the program computes."""
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


def as_truth(test: Any) -> Any:
    """``bool(test)``, also where the program computes it."""
    known = truth(test)
    if known is not None:
        return known
    array = test.as_array() if isinstance(test, TracedSize) else test
    return array if array.dtype.kind == "b" else np.not_equal(array, 0)


def facts(test: object, answer: bool) -> list[Relation]:
    """What a condition with this answer says of sizes."""
    if isinstance(test, TracedSize):
        return test.asked.nonzero(test.dim) if answer else []
    return facts_of(test, answer) if isinstance(test, Tracer) and not test.ndim else []


@contextmanager
def granted(test: object, answer: bool) -> Iterator[None]:
    """What a condition with this answer says of sizes is known within the block."""
    with ExitStack() as known:
        for relation in facts(test, answer):
            known.enter_context(parent().granted(*relation))
        yield


def note_facts(test: object, answer: bool, found: Iterable[Relation], known: Sequence[str]) -> None:
    """Note what a condition of several parts says of sizes; of those that only a part knows nothing."""
    if isinstance(test, Tracer):
        recorder = parent()
        own = recorder.last.keys() - set(known)
        kept = tuple(r for r in found if not (r[0].symbols() | r[2].symbols()) & own)
        recorder.implied[test.value] = answer, kept
