"""Dead code elimination in loops and branches.

* A carried value that no step changes is captured instead; its initial value replaces the loop's result.
* A carried value that serves only to compute itself is left out, and so is a scan's result that nobody reads.
* Operands that no body reads are left out, and results of branches and of sized bodies that nobody reads.
* Eigenvalues and singular values whose vectors nobody reads are computed alone.

This is decided by the ancestors of a body's outputs; the results of a loop inside depend on all of its operands. So
rules may write loops that compute everything: unused results are removed here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import get
from zenith.passes.rewrite import Rewriter, rebuild

Change = Callable[[Rewriter, Node, tuple[Value, ...], set[int]], Sequence[Value] | None]


def prune(graph: Graph) -> Graph:
    """The graph in which loops and branches compute only what is needed."""
    returned = {(v.node, v.output) for v in graph.outputs}

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        change = _CHANGES.get(node.primitive.name)
        if change is None or node.has_effect:
            return None
        read = {output for output, _, _ in graph.users(b.number)}
        needed = {i for i in range(len(node.types)) if i in read or (b.number, i) in returned}
        return change(b, node, args, needed)

    return rebuild(graph, visit, inner=prune)


def _sources(body: Graph, outputs: Iterable[int]) -> set[int]:
    """The inputs, by number, that some outputs of a body follow from."""
    seen = body.ancestors(body.outputs[i].node for i in outputs)
    return {i for i, v in enumerate(body.inputs) if v.node in seen}


def _unchanged(body: Graph, first: int, count: int) -> set[int]:
    """The carried values, by number, that a step returns unchanged; its inputs for them begin at ``first``."""
    pairs = ((i, body.outputs[i], body.inputs[first + i]) for i in range(count))
    return {i for i, after, before in pairs if (after.node, after.output) == (before.node, before.output)}


def _live(needed: set[int], unchanged: Collection[int], follows: Callable[[set[int]], set[int]]) -> set[int]:
    """The outputs of a loop's step that must be computed: those needed, and what these follow from in other steps.

    ``follows(outputs)`` are the carried values that outputs follow from.
    """
    live = needed - set(unchanged)
    while True:
        more = live | (follows(live) - set(unchanged))
        if more == live:
            return live
        live = more


def _with(body: Graph, inputs: Sequence[int], outputs: Iterable[int]) -> Graph:
    """A body that takes some of its inputs, in this order, and gives some of its outputs."""
    new = Graph(body.name)
    new.constants, new.weights = dict(body.constants), body.weights
    moved: dict[tuple[int, int], Value] = {}
    for i in inputs:
        value = body.inputs[i]
        moved[value.node, 0] = new.add_input(value.type, str(body.node(value.node).params["name"]))
    for number, node in body.nodes():
        args = body.args(number)
        if node.primitive is not get("input") and all((a.node, a.output) in moved for a in args):
            results = new.add_record(node, tuple(moved[a.node, a.output] for a in args))
            moved.update({(number, i): v for i, v in enumerate(results)})
    found = [body.outputs[i] for i in outputs]
    new.set_outputs(moved[v.node, v.output] for v in found)
    return new


def _scan(b: Rewriter, node: Node, args: tuple[Value, ...], needed: set[int]) -> Sequence[Value] | None:
    body, first, count = node.params["body"], node.params["captured"], node.params["carried"]
    same = _unchanged(body, first, count)

    def follows(outputs: set[int]) -> set[int]:
        return {i - first for i in _sources(body, outputs) if first <= i < first + count}

    live = _live(needed, same, follows)
    read = _sources(body, live)
    captured = [i for i in range(first + count) if i in read and (i < first or i - first in same)]
    carried = [first + i for i in range(count) if i in live]
    inputs = [*captured, *carried, *(i for i in range(first + count, len(args)) if i in read)]
    outputs = sorted(live)
    if len(inputs) == len(args) and not same and len(outputs) == len(node.types):
        return None
    results: dict[int, Value] = {i: args[first + i] for i in range(count)}  # of those that are not computed
    if outputs:
        params = {
            **node.params,
            "body": _with(body, inputs, outputs),
            "captured": len(captured),
            "carried": len(carried),
        }
        made = b.graph.add(node.primitive, [args[i] for i in inputs], params, node.line)
        results.update(zip(outputs, made, strict=True))
    return _all(results, node)


def _while(b: Rewriter, node: Node, args: tuple[Value, ...], needed: set[int]) -> Sequence[Value] | None:
    condition, body = node.params["condition"], node.params["body"]
    own, others = node.params["condition_captured"], node.params["body_captured"]
    start, count = own + others, len(node.types)
    same = _unchanged(body, others, count)
    asked = _sources(condition, [0])

    def follows(outputs: set[int]) -> set[int]:
        return {i - others for i in _sources(body, outputs) if i >= others} | {i - own for i in asked if i >= own}

    if needed <= same:
        return args[start:]
    live = _live(needed | follows(set()), same, follows)
    read, carried = _sources(body, live), sorted(live)
    tests = [i for i in range(own + count) if i in asked and (i < own or i - own in same)]
    works = [i for i in range(others + count) if i in read and (i < others or i - others in same)]
    operands = [i if i < own else start + i - own for i in tests]
    operands += [own + i if i < others else start + i - others for i in works]
    operands += [start + i for i in carried]
    if len(operands) == len(args) and not same and len(carried) == count:
        return None
    params = {
        **node.params,
        "condition": _with(condition, [*tests, *(own + i for i in carried)], [0]),
        "body": _with(body, [*works, *(others + i for i in carried)], carried),
        "condition_captured": len(tests),
        "body_captured": len(works),
    }
    made = b.graph.add(node.primitive, [args[i] for i in operands], params, node.line)
    return [dict(zip(carried, made, strict=True)).get(i, args[start + i]) for i in range(count)]


def _bodies(b: Rewriter, node: Node, args: tuple[Value, ...], needed: set[int]) -> Sequence[Value] | None:
    """A switch, or a sized body: the first operand chooses one of the bodies, or is the size."""
    is_switch, outputs = "branches" in node.params, sorted(needed)
    bodies = node.params["branches"] if is_switch else (node.params["body"],)
    inputs = sorted(set[int]().union(*(_sources(body, outputs) for body in bodies)))
    if not outputs or (len(inputs) == len(args) - 1 and len(outputs) == len(node.types)):
        return None
    pruned = tuple(_with(body, inputs, outputs) for body in bodies)
    params = {"branches": pruned} if is_switch else {**node.params, "body": pruned[0]}
    made = b.graph.add(node.primitive, [args[0], *(args[1 + i] for i in inputs)], params, node.line)
    return _all(dict(zip(outputs, made, strict=True)), node)


def _all(results: dict[int, Value], node: Node) -> list[Value]:
    """A value for every result of a node; for those that nobody reads, any."""
    anything = next(iter(results.values()))
    return [results.get(i, anything) for i in range(len(node.types))]


def _values_alone(result: int, name: str) -> Change:
    """The change of a factorisation to the primitive that computes only one of its results."""

    def change(b: Rewriter, node: Node, args: tuple[Value, ...], needed: set[int]) -> Sequence[Value] | None:
        return _all({result: getattr(b, name)(*args)}, node) if needed == {result} else None

    return change


_CHANGES: dict[str, Change] = {
    "scan": _scan, "while_loop": _while, "switch": _bodies, "sized": _bodies, "eigh": _values_alone(0, "eigvalsh"),
    "svd": _values_alone(1, "svdvals"),
}  # fmt: skip
