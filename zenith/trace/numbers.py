"""Numbers that follow from sizes alone, ``0.8 * n`` or ``n / 2 > 1``: Python may ask for them while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from zenith.ir import params as params_
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.graph import Node, Value
from zenith.ir.primitive import Interpreted
from zenith.ir.types import ArrayType
from zenith.trace.recorder import Recorder, current_recorder

if TYPE_CHECKING:
    from zenith.trace.tracer import Tracer


@runtime_checkable
class HasParent(Protocol):
    """A trace inside of another one."""

    parent: Recorder | None
    captured: dict[Value, Value]


class SizeNeeded(BaseException):
    """Integers among the arguments of a converted function are used as sizes: trace it anew with these as sizes.

    No Exception, so that nothing that the function does when it meets one gets in the way.
    """

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(f"{', '.join(sorted(names))}: integers that are sizes")
        self.names = names


_FORMULAS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": Dim.__add__, "sub": Dim.__sub__, "mul": Dim.__mul__, "maximum": maximum, "minimum": minimum,
}  # fmt: skip
_DIVISIONS: dict[str, Callable[[Dim, Dim], Dim]] = {"floor_divide": Dim.__floordiv__, "remainder": Dim.__mod__}
_LINEAR = ("add", "sub")
_CARRIED = "_zenith_carried"
_BOUNDED = ("maximum", "minimum", "remainder", "add")
_MOST = 64  # operations that such a number may take


def number_of_sizes(recorder: Recorder, node: int, output: int) -> Any:
    """The number that a node computes in this call, for whose sizes the trace is specialised; else None."""
    order = _made_of_sizes(recorder, node)
    if order is None:
        return None
    graph = recorder.graph
    values: dict[int, tuple[Any, ...]] = {}
    for number in order:
        found = graph.node(number)
        if found.primitive.name == "size":
            values[number] = (np.asarray(recorder.specialize(found.params["value"])),)
        elif found.primitive.name == "constant":
            values[number] = (graph.stored(found),)
        else:
            args = [values[a.node][a.output] for a in graph.args(number)]
            params = params_.evaluate(found.primitive.params, found.params, recorder.hints)
            values[number] = tuple(map(np.asarray, found.primitive.evaluate(args, params)))
    return values[node][output][()]


def _made_of_sizes(recorder: Recorder, node: int) -> list[int] | None:
    """The nodes that one follows from, in order; None where one of them needs an argument's values, or the turn."""
    found, rest, graph = {node}, [node], recorder.graph
    while rest:
        number = rest.pop()
        made = graph.node(number)
        if len(found) > _MOST or not _is_plain(made) or any(map(recorder.varies, map(symbol, made.symbols))):
            return None
        before = {a.node for a in graph.args(number)} - found
        found |= before
        rest += before
    return sorted(found)


def _is_plain(node: Node) -> bool:
    plain = node.primitive.name not in ("input", "weight") and not node.primitive.effect
    return (
        plain
        and not isinstance(node.primitive.evaluate, Interpreted)
        and all(isinstance(t, ArrayType) and not t.shape for t in node.types)
    )


def request_size(tracer: Tracer) -> None:
    """Raise SizeNeeded where a traced integer follows from arguments that a second trace may take for sizes."""
    current = current_recorder()
    if current is None or not current.integers or tracer.recorder.finished:
        return
    need_sizes(tracer.recorder, tracer.value)


def need_sizes(recorder: Recorder, value: Value) -> None:
    """Raise SizeNeeded where a value of a trace follows from arguments that a second trace may take for sizes."""
    names = _arguments_of(recorder, value)
    if names:
        raise SizeNeeded(frozenset(names))


def _arguments_of(recorder: Recorder, value: Value) -> set[str] | None:
    """The integers among the arguments that a value follows from; None where it follows from anything else."""
    found: set[str] = set()
    seen: set[tuple[int, int]] = set()
    pending = [(recorder, value)]
    while pending:
        owner, wanted = pending.pop()
        node = owner.graph.node(wanted.node)
        if (id(owner), wanted.node) in seen:
            continue
        seen.add((id(owner), wanted.node))
        if len(seen) > _MOST or wanted.shape:
            return None
        if node.primitive.name != "input":
            if not _is_plain(node):
                return None
            pending += [(owner, a) for a in owner.graph.args(wanted.node)]
        elif owner.counter is not None and owner.counter.value == wanted:
            continue
        elif isinstance(owner, HasParent) and owner.parent is not None:
            outer = next((o for o, i in owner.captured.items() if i.node == wanted.node), None)
            if outer is None:
                return None
            pending.append((owner.parent, outer))
        elif node.params["name"] in owner.integers:
            found.add(node.params["name"])
        else:
            return None
    return found


def size_of(tracer: Tracer) -> Dim | None:
    """The size that a traced integer is: a formula of sizes and of the turns of loops; None where it is none.

    Raises SizeNeeded where it follows from arguments that a second trace may take for sizes.
    """
    request_size(tracer)
    return formula_of(tracer)


def formula_of(tracer: Tracer) -> Dim | None:
    """The formula of sizes and of the turns of loops that a traced integer is, as far as the trace knows; else None."""
    current = current_recorder()
    if current is None or not current.sized_loops or not current.encloses(tracer.recorder):
        return None
    return formula_in(tracer.recorder, tracer.value, {})


def formula_in(owner: Recorder, value: Value, known: dict[tuple[int, Value], Dim | None]) -> Dim | None:
    """The formula of a value of a trace; ``known`` has those of others."""
    key = id(owner), value
    if key not in known:
        known[key] = None if len(known) > _MOST else _read(owner, value, known)
    return known[key]


def carried_name(number: int) -> str:
    """The symbol by which conditions are read that compare an integer which a loop carries: one of either sign.

    Formulas take symbols for sizes, which are not negative. So they have such ones in sums only.
    """
    return f"{_CARRIED}{number}"


def is_carried(formula: Dim) -> bool:
    """Whether an integer that a loop carries is in a formula."""
    return any(name.startswith(_CARRIED) for name in formula.symbols())


def most_of(tracer: Tracer) -> Dim | None:
    """The size that a traced integer is at most, as far as its last operations say; else None."""
    return _most(tracer.recorder, tracer.value)


def _most(owner: Recorder, value: Value) -> Dim | None:
    formula = formula_in(owner, value, {})
    if formula is not None:
        return owner.extremes(formula)[1]
    name = owner.graph.node(value.node).primitive.name
    most = [_most(owner, a) for a in owner.graph.args(value.node)] if name in _BOUNDED and not value.shape else []
    known = [size for size in most if size is not None]
    if name == "minimum" and known:
        return known[0]
    if name == "remainder" and most[1] is not None and (most[1].static or 0) > 0:
        return most[1] - 1
    joined = {"maximum": maximum, "add": Dim.__add__}.get(name)
    return joined(*known) if joined is not None and len(known) == 2 else None


def _is_exact(value: Value, primitive: str) -> bool:
    """Whether a value is an integer that does not wrap around."""
    if not isinstance(value.type, ArrayType) or value.shape or value.dtype.kind not in "iu":
        return False
    return value.dtype.name == "i64" or primitive in ("input", "literal", "size")


def _read(owner: Recorder, value: Value, known: dict[tuple[int, Value], Dim | None]) -> Dim | None:
    node, args = owner.graph.node(value.node), owner.graph.args(value.node)
    name = node.primitive.name
    if not _is_exact(value, name):
        return None
    if name == "input":
        if owner.counter is not None and owner.counter.value == value:
            return owner.index()
        outer = None
        if isinstance(owner, HasParent) and owner.parent is not None:
            outer = next((o for o, i in owner.captured.items() if i == value), None)
            return None if outer is None else formula_in(owner.parent, outer, known)
        return None
    if name in ("literal", "size"):
        return dim(int(node.params["value"])) if name == "literal" else owner.canonical(node.params["value"])
    if name in ("cast", "neg"):
        formula = None if args[0].dtype.name == "u64" else formula_in(owner, args[0], known)
        return 0 - formula if name == "neg" and formula is not None else formula
    if name not in _FORMULAS and name not in _DIVISIONS:
        return None
    left, right = (formula_in(owner, a, known) for a in args)
    if left is None or right is None or (name not in _LINEAR and (is_carried(left) or is_carried(right))):
        return None
    if name in _FORMULAS:
        return _FORMULAS[name](left, right)
    return _DIVISIONS[name](left, right) if (right.static or 0) > 0 else None
