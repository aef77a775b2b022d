"""Separation: why fusion left two operations, one of which reads the other, in different kernels.

Nothing is recorded while fusing: the grouping of a graph is computed a second time, and each value that passes from one
kernel to another is checked against the rules of :mod:`zenith.passes.grouping`, in the order of fusion.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zenith.errors import SourceLine
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Elements, Fold, HostCall, NativeCall, Overwrite, Prefix, Region, Scatter, Tile, View
from zenith.passes.fuse import fuse
from zenith.passes.grouping import MAX_MEMBERS, Grouping
from zenith.passes.groups import JOINED, Group
from zenith.passes.index_maps import Read
from zenith.passes.pipeline import PIPELINE, run

CYCLE = "a third kernel needs the one and is needed by the other"
ELSEWHERE = "it reads elements at other indices than the one that it computes"
ELSEWHERE_TOO = "its kernel reads values of that kernel at other indices, too"
FULL = f"a kernel has at most {MAX_MEMBERS} operations"
OTHER_SHAPE = "a kernel runs over one shape, and theirs differ"
OTHER_AXES = "they reduce different axes"
OTHER_WALK = "a prefix walks along one axis in one direction, and the kernel in front along others"
NOT_WHOLE = "a row is not whole in one task of the kernel in front"
NEEDED_TOO = "its operand is needed elsewhere, and a reduction of leading axes stores no elements"
AFTER_ROWS = "a reduction of leading axes walks along other rows than the kernel in front"
WHOLE = {
    View: "another shape of the same memory needs the value in memory",
    HostCall: "Python is called with the value in memory",
    NativeCall: "native code is called with the value in memory",
    Tile: "a tile kernel reads its operands from memory, many times",
    Scatter: "a scatter reads its operands from memory, in order",
    Overwrite: "a slice is overwritten in memory",
    Region: "a loop or branch runs kernels of its own, which read the value from memory",
    Elements: "it only moves elements, which is a kernel of its own where its result must be in memory",
}


@dataclass(frozen=True, slots=True)
class Separation:
    """A value that one kernel writes and another reads: the two operations, their lines, and the reason."""

    first: str
    first_line: SourceLine | None
    then: str
    then_line: SourceLine | None
    reason: str


def why_not_fused(graph: Graph) -> list[Separation]:
    """The separations of a traced graph, once the passes in front of fusion have run."""
    unfused, _ = run(graph, PIPELINE[: PIPELINE.index(fuse)], debug=False)
    return separations(unfused)


def separations(graph: Graph) -> list[Separation]:
    """Every value that passes between two kernels of a graph that is ready to be fused, in program order.

    >>> from zenith.ir.text import parse
    >>> text = "a = exp(x)\\n    t = transpose(a, axes=(1, 0))\\n    r = sub(a, t)\\n    return (r,)"
    >>> (only,) = separations(parse("def f(x: f32[n, n]) -> (f32[n, n]):\\n    " + text))
    >>> only.first, only.then, only.reason
    ('exp', 'sub', 'it reads elements at other indices than the one that it computes')
    """
    grouping = Grouping(graph)
    units = grouping.units.of
    found: dict[tuple[int, int], Separation] = {}
    for number, _ in graph.nodes():
        for read in grouping.reads(number) if number in units else ():
            pair = read.value.node, number
            if grouping.group_of(pair[0]) is not None and units[pair[0]] != units[number]:
                first, then = (graph.node(n) for n in pair)
                reason = _reason(grouping, number, read)
                found[pair] = Separation(first.primitive.name, first.line, then.primitive.name, then.line, reason)
    return list(found.values())


def _reason(g: Grouping, number: int, read: Read) -> str:
    lowering = g.graph.node(number).primitive.lowering
    for form, reason in WHOLE.items():
        if isinstance(lowering, form):
            return reason
    front = g.groups[g.units.of[read.value.node]]
    rules = {Fold: _fold_rules, Prefix: _prefix_rules}.get(type(lowering), _scalar_rules)
    return next(rules(g, number, read, front))


def _prefix_rules(g: Grouping, number: int, read: Read, front: Group) -> Iterator[str]:
    own = g.groups[g.units.of[number]]
    if read.access == "same" and front.kind in JOINED and front.space == own.space:
        kind_differs = front.kind != "loops" and (front.kind, front.outer) != (own.kind, own.outer)
        if kind_differs or front.along not in (None, own.along):
            yield OTHER_WALK
    yield from _scalar_rules(g, number, read, front)


def _fold_rules(g: Grouping, number: int, read: Read, front: Group) -> Iterator[str]:
    (operand,) = g.args[number]
    axes = g.graph.node(number).params["axes"]
    outer = len(operand.shape) - len(axes)
    trailing = axes == tuple(range(outer, len(operand.shape)))
    if read.access != "same":
        yield ELSEWHERE
    if operand.shape != front.space:
        yield OTHER_SHAPE
    if not trailing:
        yield NEEDED_TOO if front.kind in ("loops", "columns") else AFTER_ROWS
    if front.kind == "rows" and front.outer != outer:
        yield OTHER_AXES
    yield FULL if len(front.members) >= MAX_MEMBERS else NOT_WHOLE


def _scalar_rules(g: Grouping, number: int, read: Read, front: Group) -> Iterator[str]:
    unit, other = g.units.of[number], g.units.of[read.value.node]
    own = g.groups[unit]
    level = front.level(Value(number, 0, g.graph.node(number).types[0]).shape)
    if front.kind not in JOINED:
        yield f"nothing is computed after what is done in a kernel of kind {front.kind}"
    if read.access == "other":
        yield ELSEWHERE
    if level is None or front.level(read.value.shape) is None:
        yield OTHER_SHAPE
    between = [r for member in own.members for r in g.reads(member) if g.units.of[r.value.node] == other]
    if level is None or not all(g.reads_in_place(r, front, level) for r in between):
        yield ELSEWHERE_TOO
    if g.units.has_detour(unit, other):
        yield CYCLE
    if len(front.members) + len(own.members) > MAX_MEMBERS:
        yield FULL
    if front.space != own.space:
        yield OTHER_SHAPE
    if front.kind == own.kind == "rows" and front.outer != own.outer:
        yield OTHER_AXES
    yield f"its kernel is of kind {own.kind}, and none is of kind {front.kind} as well"
