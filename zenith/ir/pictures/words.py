"""What stands in the box of an operation: its name, its parameters, and what it reads from the program itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from zenith.errors import SourceLine
from zenith.ir import params as params_
from zenith.ir.graph import Graph, Node, Value

COLORS = {
    "input": "#dbeafe", "output": "#dcfce7", "constant": "#f3f4f6", "literal": "#f3f4f6", "part": "#ede9fe",
    "repeat": "#fef3c7", "outside": "#f3f4f6",
}  # fmt: skip
LONGEST = 44  # letters of a line
_INLINE = 12  # letters of an argument that stands in the first line
_BODY = 20  # lines of a body that stand in its box
_IMPLIED = frozenset({"shape", "dtype"})  # parameters that the type of the result says


def whole(node: Node) -> list[str]:
    """Everything about a node, in lines: its name, subgraphs, parameters and types."""
    types = ", ".join(map(str, node.types))
    if node.primitive.name == "input":
        return [f"{node.params['name']}: {types}"]
    lines = [node.primitive.name]
    lines += [line.expandtabs() for body in node.bodies for line in str(body).splitlines()]
    lines += [cut(f"{name}={text}") for name, text in _params(node)]
    return [*lines, types] if types else lines


def operation(graph: Graph, number: int, asides: Collection[Value]) -> list[str]:
    """The lines of an operation's box; arguments that are ``asides`` have no box of their own, and stand in it."""
    node, args = graph.node(number), graph.args(number)
    head, lines = [], list[str]()
    for letter, arg in zip("abcdefghijklmnopqrstuvwxyz" + "." * len(args), args, strict=False):
        text = aside(graph, arg) if arg in asides else "\N{MIDDLE DOT}"
        if len(text) > _INLINE:
            lines.append(_fitted(f"{letter} = ", text, f": {_origin(graph, arg).type}"))
        head.append(letter if len(text) > _INLINE else text)
    stands = any(arg in asides for arg in args)
    name = cut(f"{node.primitive.name}({', '.join(head)})") if stands else node.primitive.name
    params = [cut(f"{name}={text}") for name, text in _params(node) if name not in _IMPLIED]
    return [name, *lines, *_bodies(node), *params, *map(cut, map(str, node.types))]


def aside(graph: Graph, value: Value) -> str:
    """A value that is in the program, or only another view of one, in words."""
    node = graph.node(value.node)
    match node.primitive.name:
        case "literal":
            return str(node.params["dtype"].numpy.type(node.params["value"]))
        case "weight" | "input":
            return str(node.params["name"])
        case "size":
            return str(node.params["value"])
        case "constant" | "token":
            return node.primitive.name
        case "broadcast":  # as the type of the result says
            return aside(graph, graph.args(value.node)[0])
    return f"{node.primitive.name} of {aside(graph, graph.args(value.node)[0])}"


def _origin(graph: Graph, value: Value) -> Value:
    """What an aside is a view of."""
    args = graph.args(value.node)
    return _origin(graph, args[0]) if args else value


def _params(node: Node) -> Iterator[tuple[str, str]]:
    """The parameters but for subgraphs, as text."""
    for name, value in node.params.items():
        if name not in node.primitive.subgraphs:
            yield name, params_.KINDS[node.primitive.params[name]].text(value)


def _bodies(node: Node) -> list[str]:
    """The text of subgraphs, or how large they are, which their pictures show."""
    lines = [cut(line.expandtabs()) for body in node.bodies for line in str(body).splitlines()]
    return lines if len(lines) <= _BODY else [cut(f"{body.name}: {len(body)} nodes") for body in node.bodies]


def quoted(line: SourceLine) -> str:
    """A line with its code."""
    return f"{line}: {line.code}".removesuffix(": ")


def cut(text: str, longest: int = LONGEST) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _fitted(before: str, text: str, after: str) -> str:
    """A line with the end of a name that is too long, by which names of weights differ."""
    *views, name = text.split(" of ")
    before = "".join([before, *(f"{view} of " for view in views)])
    room = max(LONGEST - len(before) - len(after), _INLINE)
    return before + (name if len(name) <= room else "..." + name[3 - room :]) + after
