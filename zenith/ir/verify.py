"""The verifier: reports which node of a malformed graph is wrong, and from which line of the user it came."""

from __future__ import annotations

from zenith.errors import VerifyError, ZenithError
from zenith.ir.graph import Graph, Node, Value, stored_name
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, TokenType, dtype_of

ResultKey = tuple[int, int]  # a node and the number of a result


def verify(graph: Graph) -> Graph:
    """Check a graph and give it back; raises :class:`~zenith.errors.VerifyError` naming node and line.

    Checked: every argument is a result of an earlier node, of the type recorded there; recorded result types are what
    the primitive's typing rule gives; inputs have unique names; outputs exist; no token is used twice;
    constants and weights are stored, with the type that their node says; the same in every subgraph.
    """
    _check_inputs(graph)
    used: set[ResultKey] = set()
    for number, node in graph.nodes():
        _check_arguments(graph, number, node)
        _check_types(graph, number, node)
        _check_tokens(graph, number, used)
        for body in node.bodies:
            verify(body)
    for value in graph.outputs:
        if not isinstance(value, Value):
            raise VerifyError(f"{graph.name}: an output is a {type(value).__name__}, not a Value")
        types = graph.node(value.node).types if 0 <= value.node < len(graph) else ()
        if not 0 <= value.output < len(types):
            raise VerifyError(f"{graph.name}: output {value.output} of node {value.node} does not exist")
        if value.type != types[value.output]:
            what = f"it is an output of type {value.type}"
            raise _fail(graph, value.node, graph.node(value.node), what)
    return graph


def _check_inputs(graph: Graph) -> None:
    nodes = [number for number, node in graph.nodes() if node.primitive is get("input")]
    if [v.node for v in graph.inputs] != nodes:
        raise VerifyError(f"{graph.name}: the inputs are nodes {nodes}, not {[v.node for v in graph.inputs]}")
    names = [graph.node(number).params["name"] for number in nodes]
    if len(set(names)) != len(names):
        raise VerifyError(f"{graph.name}: input names repeat: {', '.join(names)}")


def _fail(graph: Graph, number: int, node: Node, what: str) -> VerifyError:
    return VerifyError(
        f"{graph.name}: node {number} ({node.primitive.name}): {what}", where=node.line, types=node.types
    )


def _check_arguments(graph: Graph, number: int, node: Node) -> None:
    for position, arg in enumerate(graph.args(number)):
        if not 0 <= arg.node < number:
            raise _fail(graph, number, node, f"argument {position} comes from node {arg.node}, which is no earlier one")
        types = graph.node(arg.node).types
        if not 0 <= arg.output < len(types):
            what = f"argument {position} is output {arg.output} of node {arg.node}, which has fewer"
            raise _fail(graph, number, node, what)
        if arg.type != types[arg.output]:
            raise _fail(graph, number, node, f"argument {position} is taken for {arg.type}, not {types[arg.output]}")


def _check_types(graph: Graph, number: int, node: Node) -> None:
    if node.primitive is get("input"):
        return
    if node.primitive in (get("constant"), get("weight")):
        _check_stored(graph, number, node)
    try:
        types = node.primitive.typing([a.type for a in graph.args(number)], node.params)
    except ZenithError as error:
        raise _fail(graph, number, node, error.what) from error
    if types != node.types:
        raise _fail(graph, number, node, f"recorded types are not {', '.join(map(str, types))}")


def _check_stored(graph: Graph, number: int, node: Node) -> None:
    name, array = stored_name(node), graph.stored(node)
    if array is None:
        raise _fail(graph, number, node, f"{node.primitive.name} {name} is not stored with the graph")
    dtype = dtype_of(array.dtype)
    if dtype is None or (ArrayType(dtype, array.shape),) != node.types:
        what = f"{node.primitive.name} {name} is stored as {array.dtype}{list(array.shape)}"
        raise _fail(graph, number, node, what)


def _check_tokens(graph: Graph, number: int, used: set[ResultKey]) -> None:
    """No token that the node takes is among the ``used`` ones, which those then are, too."""
    for arg in graph.args(number):
        if isinstance(arg.type, TokenType):
            if (arg.node, arg.output) in used:
                what = "its token is used twice, so that the order of effects is not defined"
                raise _fail(graph, arg.node, graph.node(arg.node), what)
            used.add((arg.node, arg.output))
