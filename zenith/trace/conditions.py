"""What conditions say of sizes and of the integers that loops carry."""

from __future__ import annotations

from collections.abc import Collection

from zenith.ir.dims import Dim, symbol
from zenith.ir.graph import Value
from zenith.ir.types import ArrayType
from zenith.trace.numbers import HasParent, formula_in, is_carried, need_sizes
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.size_relations import NEGATED, Relation
from zenith.trace.tracer import Tracer

_ORDERS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def facts_of(tracer: Tracer, answer: bool) -> list[Relation]:
    """What a traced truth with this answer says of sizes, where these depend on values."""
    current, owner = current_recorder(), tracer.recorder
    if current is None or not current.sized_loops or not current.encloses(owner):
        return []
    if not (current.from_values or current.conditions.numbers):
        return []
    value = tracer.value
    while owner.graph.node(value.node).primitive.name == "bit_not":
        (value,), answer = owner.graph.args(value.node), not answer
    if value in owner.conditions.implied:
        wanted, facts = owner.conditions.implied[value]
        return list(facts) if wanted is answer else []
    name = owner.graph.node(value.node).primitive.name
    if name not in _ORDERS and name != ("ne" if answer else "eq"):
        return []
    known = _numbers_of_turns(owner)
    left, right = (formula_in(owner, a, known) for a in owner.graph.args(value.node))
    if left is None or right is None:
        compared = zip(owner.graph.args(value.node), (left, right), strict=True)
        owner.compared += [(owner, number) for number, formula in compared if formula is None]
        return []
    if name in _ORDERS:
        return [(left, _ORDERS[name] if answer else NEGATED[_ORDERS[name]], right)]
    return [] if is_carried(left - right) else current.nonzero(left - right)


def _numbers_of_turns(owner: Recorder) -> dict[tuple[int, Value], Dim | None]:
    """The integers that loops around carry, as the symbols by which conditions are read (``Conditions.numbers``)."""
    found: dict[tuple[int, Value], Dim | None] = {}
    at: Recorder | None = owner
    while at is not None:
        found |= {(id(at), value): symbol(name) for value, name in at.conditions.numbers.items()}
        at = at.parent if isinstance(at, HasParent) else None
    return found


def carried_formula(tracer: Tracer) -> Dim | None:
    """The formula of a traced integer, in which those that loops around carry are symbols, too; else None."""
    return formula_in(tracer.recorder, tracer.value, _numbers_of_turns(tracer.recorder))


def step_of(tracer: Tracer, before: Value, unset: Collection[Value]) -> int | None:
    """What a turn adds to a number that a loop carries, and that is ``before`` when it begins; None if it is not known.

    The turn has left the flags ``unset``.
    """
    owner, value = tracer.recorder, tracer.value
    name, end = owner.conditions.numbers.get(before), carried_formula(tracer)
    if end is None and value in owner.conditions.chosen:
        test, sides = owner.conditions.chosen[value]
        answer = False
        while owner.graph.node(test.node).primitive.name == "bit_not":
            (test,), answer = owner.graph.args(test.node), not answer
        end = sides[answer] if test in unset else None
    return None if name is None or end is None else (end - symbol(name)).static


def request_compared(recorder: Recorder) -> None:
    """Raise SizeNeeded where conditions have compared numbers with arguments that a second trace may take for sizes."""
    for owner, number in recorder.compared:
        if recorder.integers and isinstance(number.type, ArrayType) and number.type.dtype.kind in "iu":
            need_sizes(owner, number)
