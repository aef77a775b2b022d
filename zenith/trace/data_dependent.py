"""Sizes that the program computes: of what a mask selects, or of a slice between computed bounds.

Such a size is a symbol that is known from where it is computed on, to ``most`` at most. While a function is traced a
node ``sized`` with an empty body marks that place. When the trace has ended, the nodes with such sizes, and those that
follow from them, become the body (:func:`with_bodies`): so no pass moves them to where the size is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from zenith.errors import SourceLine, UnsupportedError, user_line
from zenith.ir.dims import Dim, symbol
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import get
from zenith.trace.memory import same_value
from zenith.trace.numbers import HasParent
from zenith.trace.recorder import Recorder
from zenith.trace.size_relations import VaryingSize

MARK = get("sized")
Demands = Mapping[str, Mapping[tuple[str, Dim | Value], str]]  # relations of computed sizes, and why, by their index


@dataclass(frozen=True, slots=True)
class DataDependentSize:
    """A size that the number ``count`` is, up to ``most``.

    ``origin`` is what it was computed from, by name: of two sizes with equal ones and equal ``most`` one is the other.
    """

    index: str
    count: Value
    most: Dim
    origin: Mapping[str, Value]


def data_dependent_size(recorder: Recorder, count: Value, most: Dim, origin: Mapping[str, Value]) -> Dim:
    """The size that a number of the trace is, from 0 to ``most``; see :class:`DataDependentSize`."""
    found = DataDependentSize("", count, most, origin)
    known = _known(recorder, found)
    if known is not None:
        return symbol(known)
    index = recorder.new_index("k", most)
    recorder.from_values.add(index)
    recorder.data_dependent_sizes.append(replace(found, index=index))
    recorder.add(MARK, (count,), {"body": Graph("sized"), "index": index, "most": most})
    return symbol(index)


def _known(recorder: Recorder, found: DataDependentSize) -> str | None:
    """The index of a size in a trace, or in one around it, that was computed from the same."""
    for known in recorder.data_dependent_sizes:
        if known.most == found.most and _are_same(recorder, known, found):
            return known.index
    if not isinstance(recorder, HasParent) or recorder.parent is None:
        return None
    outer = {inner: value for value, inner in recorder.captured.items()}
    if not found.origin or not outer.keys() >= {*found.origin.values()}:
        return None
    return _known(recorder.parent, replace(found, origin={name: outer[v] for name, v in found.origin.items()}))


def _are_same(recorder: Recorder, one: DataDependentSize, other: DataDependentSize) -> bool:
    same = one.origin.keys() == other.origin.keys()
    return same and all(same_value(recorder, value, other.origin[name]) for name, value in one.origin.items())


def unify(recorder: Recorder, one: str, other: str) -> tuple[str, Dim] | None:
    """The later of two computed sizes, and the earlier, which it must be: the program checks what is not known.

    None where the two are not computed sizes, or the earlier one is needed to compute the later.
    """
    sizes = {size.index: (number, size) for number, size in enumerate(recorder.data_dependent_sizes)}
    if one not in sizes or other not in sizes:
        return None
    (_, first), (_, second) = sorted((sizes[one], sizes[other]), key=lambda pair: pair[0])
    if _are_same(recorder, first, second) and recorder.holds(first.most, "==", second.most):
        return second.index, symbol(first.index)
    if second.count.node in _needing(recorder.graph, {first.index}):
        return None
    why = "arrays whose sizes depend on values have different sizes"
    recorder.demands.setdefault(first.index, {})["==", second.count] = why
    return second.index, symbol(first.index)


def require_known(recorder: Recorder, results: Iterable[Value], what: str) -> None:
    """VaryingSize where a result of a trace has a size that is known in it only."""
    own = {size.index for size in recorder.data_dependent_sizes}
    if any(s in own for v in results for n in v.shape for s in recorder.canonical(n).symbols()):
        raise VaryingSize(f"a size of {what} depends on values in it", where=user_line(),
                          fix="keep the shape of the array: numpy.where(mask, x, 0)")  # fmt: skip


def with_bodies(graph: Graph, demands: Demands) -> Graph:
    """The graph with what computed sizes are needed for in the bodies of the nodes that mark them.

    The program checks the relations that the trace ``demands`` of these.
    """
    marks = [n for n, node in graph.nodes() if _is_mark(node)]
    if not marks:
        return graph
    symbols = frozenset[str]().union(*(node.symbols for _, node in graph.nodes() if not _is_mark(node)))
    used = [n for n in marks if graph.node(n).params["index"] in symbols]
    inside = _inside(graph, used) if used else set[int]()
    outer, moved = Graph(graph.name), dict[tuple[int, int], Value]()
    outer.constants, outer.weights, outer.guards = dict(graph.constants), graph.weights, graph.guards
    _copy(graph, (n for n, _ in graph.nodes() if n not in inside and n not in marks), outer, moved)
    if used:
        _add_body(graph, used[0], inside, outer, moved, demands)
    outer.set_outputs(moved[v.node, v.output] for v in graph.outputs)
    return outer


def _inside(graph: Graph, marks: Sequence[int]) -> set[int]:
    """The nodes that need the first of some sizes, or mark the others: these and all that follows from them."""
    names = {graph.node(n).params["index"] for n in marks}
    return (_needing(graph, names) | graph.descendants(marks[1:])) - {marks[0]}


def _needing(graph: Graph, names: set[str]) -> set[int]:
    """The nodes with sizes of these names, and all that follows from them."""
    return graph.descendants(n for n, node in graph.nodes() if not _is_mark(node) and node.symbols & names)


def _is_mark(node: Node) -> bool:
    return node.primitive is MARK and not len(node.params["body"])


def _add_body(
    graph: Graph, mark: int, inside: set[int], outer: Graph, moved: dict[tuple[int, int], Value], demands: Demands
) -> None:
    """Append the node that marks a size, with the nodes ``inside`` as its body."""
    effect = next((graph.node(n) for n in inside if graph.node(n).primitive.effect), None)
    if effect is not None:
        raise UnsupportedError(f"{effect.primitive.name} of what has a size that depends on values", where=effect.line,
                               fix="print the array from which it is taken")  # fmt: skip
    node, body = graph.node(mark), Graph("sized")
    body.constants, body.weights = dict(graph.constants), graph.weights
    returned = list(dict.fromkeys(v for v in graph.outputs if v.node in inside))
    read = [a for n in sorted(inside) for a in (*graph.args(n), *_demanded(graph.node(n), demands))]
    given = list(dict.fromkeys(a for a in read if a.node not in inside))
    empty = [a for a in given if graph.node(a.node).primitive is get("empty")]
    captured = [a for a in given if a not in empty]
    within = {(v.node, v.output): body.add_input(v.type, f"captured{k}") for k, v in enumerate(captured)}
    _copy(graph, (a.node for a in empty), body, within)
    _copy(graph, sorted(inside), body, within)
    body.set_outputs(within[v.node, v.output] for v in returned)
    count, *operands = (moved[v.node, v.output] for v in (graph.args(mark)[0], *captured))
    for (relation, other), why in demands.get(node.params["index"], {}).items():
        known = moved[other.node, other.output] if isinstance(other, Value) else other
        count = _checked(outer, count, relation, known, why, node.line)
    params = {**node.params, "body": with_bodies(body, translated(demands, within))}
    results = outer.add(MARK, [count, *operands], params, node.line)
    moved.update({(v.node, v.output): r for v, r in zip(returned, results, strict=True)})


def _demanded(node: Node, demands: Demands) -> list[Value]:
    """The values with which the size of a mark is compared."""
    found = demands.get(node.params["index"], {}) if _is_mark(node) else {}
    return [other for _, other in found if isinstance(other, Value)]


def translated(demands: Demands, moved: Mapping[tuple[int, int], Value]) -> Demands:
    """Demands of a graph as those of one to which its values have moved."""

    def of(other: Dim | Value) -> Dim | Value:
        return moved.get((other.node, other.output), other) if isinstance(other, Value) else other

    return {index: {(r, of(other)): why for (r, other), why in own.items()} for index, own in demands.items()}


def _checked(graph: Graph, count: Value, relation: str, other: Dim | Value, why: str, line: SourceLine | None) -> Value:
    """A number, with an error when the program runs where it does not compare so with another one."""
    if not isinstance(other, Value):
        (other,) = graph.add(get("size"), (), {"value": other}, line)
    (wrong,) = graph.add(get({">=": "lt", "==": "ne"}[relation]), (count, other), {}, line)
    return graph.add(get("error_if"), (count, wrong), {"why": why}, line)[0]


def _copy(graph: Graph, numbers: Iterable[int], target: Graph, moved: dict[tuple[int, int], Value]) -> None:
    for number in numbers:
        node = graph.node(number)
        if node.primitive.name == "input":
            results: tuple[Value, ...] = (target.add_input(node.types[0], node.params["name"], node.line),)
        else:
            results = target.add_record(node, tuple(moved[a.node, a.output] for a in graph.args(number)))
        moved.update({(number, i): value for i, value in enumerate(results)})
