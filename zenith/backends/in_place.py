"""In place: results that may take the memory of an operand, since nobody reads that any more.

A group that overwrites a slice of an array, or adds to some of its elements, has a kernel that copies the array and one
that writes. Where the planner gives array and result one allocation, the copy is left out: so a loop that fills a
buffer, such as a cache of keys, moves in each iteration only what is new, however large the buffer is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zenith.backends.outputs import is_part, own_outputs, root_of
from zenith.backends.steps import Allocation
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Region, Scalar, View
from zenith.ir.primitive import get

UPDATES = ("update", "scatter")  # kinds whose first kernel copies the first operand


def overwritten(graph: Graph, value: Value) -> Value | None:
    """The operand of a group or loop in whose memory ``value`` can be computed; None where there is none."""
    node, args = graph.node(value.node), graph.args(value.node)
    if node.primitive.name == "fused":
        index = _changed_input(node) if node.params["anchor"] in UPDATES else None
        return None if index is None else args[index]
    if node.primitive.name in ("switch", "sized"):
        return _overwritten_in_all(node, args[1:], value.output)
    if node.primitive.name not in ("scan", "while_loop"):
        return None
    start = node.params["captured" if node.primitive.name == "scan" else "body_captured"]
    body = own_outputs(node.params["body"])
    ahead = node.params.get("condition_captured", 0)
    if ahead + start + value.output >= len(args) or value.output >= node.params.get("carried", len(node.types)):
        return None
    if updates(body, body.outputs[value.output], body.inputs[start + value.output]) is None:
        return None
    return args[ahead + start + value.output]


def _overwritten_in_all(node: Node, operands: Sequence[Value], output: int) -> Value | None:
    """The operand in whose memory every branch leaves a result: changed in place, or as it is."""
    found = {_source(body, output) for body in node.bodies}
    source = found.pop()
    return None if found or source is None else operands[source]


def _source(body: Graph, output: int) -> int | None:
    """The number of the input in whose memory a result can be computed."""
    result = body.outputs[output]
    if result in body.inputs:
        return None if body.outputs.count(result) > 1 else body.inputs.index(result)
    own = own_outputs(body)
    path = _path(own, own.outputs[output])
    return None if path is None or path[-1].type != result.type else own.inputs.index(path[-1])


def between(body: Graph, inputs: Sequence[Allocation], outputs: Sequence[Allocation]) -> dict[Value, Allocation]:
    """The allocations of the values on the way from inputs to results in the same memory."""
    found: dict[Value, Allocation] = {}
    for result, allocation in zip(body.outputs, outputs, strict=True):
        for value, own in zip(body.inputs, inputs, strict=True):
            if own == allocation:
                found |= dict.fromkeys(updates(body, result, value) or (), allocation)
    return found


def _changed_input(node: Node) -> int | None:
    """The index of the input that a group's result differs from in some elements; None when it reads others of it.

    The task that writes an element may read it before: that of the slice that an update overwrites, in which no element
    has moved, or all where it is the only element that is written.
    """
    body: Graph = node.params["body"]
    (result,) = body.outputs
    array = body.args(result.node)[0]
    others = [user for _, user, argument in body.users(array.node) if (user, argument) != (result.node, 0)]
    alone = all(_is_written_slice(body, user, result.node) for user in others)
    alone = alone or all(n == 1 for n in body.args(result.node)[1].shape)
    return next((i for i, v in enumerate(body.inputs) if v == array and alone), None)


def _is_written_slice(body: Graph, number: int, update: int) -> bool:
    node, writing = body.node(number), body.node(update)
    names = (node.primitive.name, writing.primitive.name)
    between = (body.descendants([number]) & body.ancestors([update])) - {number, update}
    same = names == ("slice", "update_slice") and node.params == writing.params
    return same and all(isinstance(body.node(n).primitive.lowering, Scalar) for n in between)


def updates(body: Graph, result: Value, start: Value) -> list[Value] | None:
    """The values, each overwriting the one before in place, on the path from a loop body's input to an output.

    None where there is no such path, or where somebody reads one of them after it has been overwritten.
    """
    path = _path(body, result)
    return None if path is None or path[-1] != start else path[:-1]


def _path(body: Graph, result: Value) -> list[Value] | None:
    """An output, what it overwrites, what that overwrites, up to an input; None where it does not lead to one."""
    found = [root_of(body, result)]
    returned = {root_of(body, v) for v in body.outputs if v != result}
    while found[-1] not in body.inputs:
        operand = overwritten(body, found[-1])
        if operand is None or found[-1] in returned:
            return None
        if is_part(body, operand):
            return None
        operand = root_of(body, operand)
        if not is_last_reader(body, operand, found[-1].node):
            return None
        found.append(operand)
    return found


def in_place_ancestors(graph: Graph, result: Value) -> Iterator[Value]:
    """The computed values that can share the memory of ``result``: the operand that it overwrites, and so on."""
    value = root_of(graph, result)
    while True:
        operand = overwritten(graph, value)
        if operand is None:
            return
        if is_part(graph, operand):
            return
        operand = root_of(graph, operand)
        made = graph.node(operand.node).primitive
        computed = isinstance(made.lowering, Region) or made is get("empty")
        if not computed or not is_last_reader(graph, operand, value.node):
            return
        yield operand
        value = operand


def is_last_reader(graph: Graph, value: Value, number: int) -> bool:
    """Whether a node reads a value once, and all others that read it have run before."""
    readers = list(_readers(graph, value))
    return readers.count(number) == 1 and all(reader <= number for reader in readers)


def _readers(graph: Graph, value: Value) -> Iterator[int]:
    """The nodes that read a value's memory, each as often as it does."""
    for output, user, _ in graph.users(value.node):
        if output == value.output:
            if isinstance(graph.node(user).primitive.lowering, View):
                yield from _readers(graph, Value(user, 0, graph.node(user).types[0]))
            else:
                yield user
