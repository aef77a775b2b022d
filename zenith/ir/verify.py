"""The verifier: says which node of a malformed graph is wrong, and from which line of the user it came."""

from __future__ import annotations

from zenith.errors import VerifyError, ZenithError
from zenith.ir.graph import Graph, Node, Value, stored_name
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, TokenType, dtype_of


def verify(graph: Graph) -> Graph:
    """Check a graph and give it back; raises :class:`~zenith.errors.VerifyError` naming node and line.

    Checked: edges run forwards and number arguments 0, 1, ...; every argument exists; recorded result types are what
    the primitive's typing rule gives; inputs have unique names; outputs exist; no token is used twice;
    constants and weights are stored, with the type that their node says; the same in every subgraph.
    """
    _check_inputs(graph)
    for number, node in graph.nodes():
        _check_edges(graph, number, node)
        _check_types(graph, number, node)
        _check_token(graph, number, node)
        for body in node.bodies:
            verify(body)
    for value in graph.outputs:
        types = graph.node(value.node).types if value.node in graph.networkx else ()
        if value.output >= len(types):
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


def _check_edges(graph: Graph, number: int, node: Node) -> None:
    edges = list(graph.networkx.in_edges(number, data=True))
    if sorted(d["argument"] for _, _, d in edges) != list(range(len(edges))):
        raise _fail(graph, number, node, "arguments are not numbered 0, 1, ...")
    for source, _, data in edges:
        if source >= number:
            raise _fail(graph, number, node, f"argument {data['argument']} comes from later node {source}")
        if data["output"] >= len(graph.node(source).types):
            what = f"argument {data['argument']} is output {data['output']} of node {source}, which has fewer"
            raise _fail(graph, number, node, what)


def _check_types(graph: Graph, number: int, node: Node) -> None:
    if node.primitive is get("input"):
        return
    if node.primitive in (get("constant"), get("weight")):
        _check_stored(graph, number, node)
    try:
        args = _edge_args(graph, number)
        types = node.primitive.typing([a.type for a in args], node.params)
    except ZenithError as error:
        raise _fail(graph, number, node, error.what) from error
    if types != node.types:
        raise _fail(graph, number, node, f"recorded types are not {', '.join(map(str, types))}")
    if [a[:2] for a in args] != [a[:2] for a in graph.args(number)]:
        raise _fail(graph, number, node, "its recorded arguments are not those of its edges")


def _check_stored(graph: Graph, number: int, node: Node) -> None:
    name, array = stored_name(node), graph.stored(node)
    if array is None:
        raise _fail(graph, number, node, f"{node.primitive.name} {name} is not stored with the graph")
    dtype = dtype_of(array.dtype)
    if dtype is None or (ArrayType(dtype, array.shape),) != node.types:
        what = f"{node.primitive.name} {name} is stored as {array.dtype}{list(array.shape)}"
        raise _fail(graph, number, node, what)


def _edge_args(graph: Graph, number: int) -> tuple[Value, ...]:
    """The arguments as the edges tell them."""
    edges = sorted(graph.networkx.in_edges(number, data=True), key=lambda e: e[2]["argument"])
    return tuple(Value(u, d["output"], graph.node(u).types[d["output"]]) for u, _, d in edges)


def _check_token(graph: Graph, number: int, node: Node) -> None:
    for output, type in enumerate(node.types):
        if isinstance(type, TokenType) and len([u for u in graph.users(number) if u[0] == output]) > 1:
            raise _fail(graph, number, node, "its token is used twice, so that the order of effects is not defined")
