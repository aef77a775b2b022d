"""The text form: every graph prints as a small Python program, and the program parses back to an equal graph.

Values are renumbered in order, lines of the user are left out (``with_lines=True`` adds them as comments), so the text
is canonical: two graphs are equal when their texts are. Constants appear by the hash of their contents and weights
by name; the arrays are stored with the graph and must be given to :func:`parse` to run the result.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from zenith.errors import ParseError, ZenithError
from zenith.ir import dims as dims_
from zenith.ir import params as params_
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.guards import Guard
from zenith.ir.primitive import get
from zenith.ir.types import TOKEN, NDArray, Type

Found = TypeVar("Found")
_RELATIONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def print_graph(graph: Graph, with_lines: bool = False) -> str:
    """The text of a graph; ``with_lines`` adds the user's lines and result types as comments."""
    names: dict[tuple[int, int], str] = {(v.node, 0): graph.node(v.node).params["name"] for v in graph.inputs}
    body: list[str] = [str(guard) for guard in graph.guards]
    subgraphs: dict[str, str] = {}
    prefix = _value_prefix(set(names.values()))
    computed = [(number, node) for number, node in graph.nodes() if node.primitive.name != "input"]
    for position, (number, node) in enumerate(computed, start=len(graph.inputs)):
        targets = [f"{prefix}{position}" + (f"_{i}" if len(node.types) > 1 else "") for i in range(len(node.types))]
        names.update({(number, i): t for i, t in enumerate(targets)})
        arguments = [names[a.node, a.output] for a in graph.args(number)]
        body.append(_statement(node, targets, arguments, subgraphs, with_lines))
    signature = ", ".join(f"{names[v.node, v.output]}: {v.type}" for v in graph.inputs)
    results = ", ".join(str(v.type) for v in graph.outputs)
    body.append("return " + _sequence([names[v.node, v.output] for v in graph.outputs]))
    lines = [f"def {graph.name}({signature}) -> ({results}):"]
    for text in subgraphs.values():
        lines += ["    " + line for line in text.splitlines()]
    return "\n".join(lines + ["    " + line for line in body])


def _value_prefix(inputs: set[str]) -> str:
    """``v``, or the like when an input's own name could be that of a value."""
    prefix = "v"
    while any(re.fullmatch(prefix + r"\d+(_\d+)?", name) for name in inputs):
        prefix += "_"
    return prefix


def _sequence(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _statement(
    node: Node, targets: list[str], arguments: list[str], subgraphs: dict[str, str], with_lines: bool
) -> str:
    words = list(arguments)
    for name, value in node.params.items():
        kind = node.primitive.params[name]
        if kind == "graph":
            words.append(f"{name}={_name_subgraph(value, subgraphs, with_lines)}")
        elif kind == "graphs":
            words.append(f"{name}=" + _sequence([_name_subgraph(g, subgraphs, with_lines) for g in value]))
        else:
            words.append(f"{name}={params_.KINDS[kind].text(value)}")
    text = f"{', '.join(targets) or '_'} = {node.primitive.name}({', '.join(words)})"
    if with_lines:
        types = ", ".join(map(str, node.types))
        text = f"{text:<60}  # {types}" + (f"  {node.line}: {node.line.code}" if node.line else "")
    return text


def _name_subgraph(graph: Graph, subgraphs: dict[str, str], with_lines: bool) -> str:
    """A name for a subgraph in its parent's text: equal subgraphs share one definition."""
    text = print_graph(graph, with_lines)
    body = text[text.index("(") :]
    for name, known in subgraphs.items():
        if known[known.index("(") :] == body:
            return name
    name = f"body{len(subgraphs)}"
    subgraphs[name] = f"def {name}{body}"
    return name


def parse(
    text: str,
    constants: Mapping[str, NDArray] | None = None,
    weights: Mapping[str, NDArray] | None = None,
) -> Graph:
    """The graph that ``text`` spells: the inverse of ``str(graph)``.

    ``constants`` and ``weights`` (a graph's own) supply the arrays that the text names by hash and by name. Raises
    :class:`~zenith.errors.ParseError` naming the line of the text that is wrong.

    >>> print(parse("def f(x: f32[n]) -> (f32[n]):\\n    v1 = exp(x)\\n    return (v1,)"))
    def f(x: f32[n]) -> (f32[n]):
        v1 = exp(x)
        return (v1,)
    """
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        raise ParseError(f"not a graph: {error.msg} in line {error.lineno}") from error
    if len(module.body) != 1 or not isinstance(module.body[0], ast.FunctionDef):
        raise ParseError("not a graph: the text must be one function definition")
    return _parse_function(module.body[0], _Stored(constants or {}, dict(weights or {})))


class _Stored(NamedTuple):
    """The arrays that a text names: constants by hash, weights by name."""

    constants: Mapping[str, NDArray]
    weights: dict[str, NDArray]


def _parse_function(function: ast.FunctionDef, stored: _Stored) -> Graph:
    graph = Graph(function.name)
    graph.weights = stored.weights
    values: dict[str, Value] = {}
    subgraphs: dict[str, Graph] = {}
    guards: list[Guard] = []
    for argument in function.args.args:
        if argument.annotation is None:
            raise ParseError(f"input {argument.arg} has no type")
        values[argument.arg] = graph.add_input(_parse_type(argument.annotation), argument.arg)
    for statement in function.body:
        try:
            _parse_statement(statement, graph, values, subgraphs, guards, stored)
        except (ValueError, TypeError) as error:
            if isinstance(statement, ast.FunctionDef):
                raise  # the statement inside is named already
            what = error.what if isinstance(error, ZenithError) else str(error)
            raise ParseError(f"line {statement.lineno}: {ast.unparse(statement)}: {what}") from error
    graph.guards = tuple(guards)
    return graph


def _parse_statement(
    statement: ast.stmt,
    graph: Graph,
    values: dict[str, Value],
    subgraphs: dict[str, Graph],
    guards: list[Guard],
    stored: _Stored,
) -> None:
    match statement:
        case ast.FunctionDef():
            subgraphs[statement.name] = _parse_function(statement, stored)
        case ast.Expr(value=ast.Call(func=ast.Name(id="assume" | "require" as kind), args=[ast.Compare() as test])):
            relation = _RELATIONS.get(type(test.ops[0]))
            if relation is None or len(test.ops) > 1:
                raise ParseError("not a relation of two sizes")
            guards.append(Guard(kind, dims_.parse(test.left), relation, dims_.parse(test.comparators[0])))
        case ast.Assign(targets=[target], value=ast.Call(func=ast.Name(id=name)) as call):
            results = _parse_call(name, call, graph, values, subgraphs, stored)
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            if len(targets) != len(results):
                raise ParseError(f"{name} gives {len(results)} results, not {len(targets)}")
            values.update({ast.unparse(t): r for t, r in zip(targets, results, strict=True)})
        case ast.Return(value=ast.Tuple(elts=elements)):
            graph.set_outputs([_find(values, ast.unparse(e), "value") for e in elements])
        case _:
            raise ParseError("not a statement of a graph")


def _find(table: Mapping[str, Found], name: str, what: str) -> Found:
    try:
        return table[name]
    except KeyError:
        raise ParseError(f"there is no {what} {name}") from None


def _parse_call(
    name: str,
    call: ast.Call,
    graph: Graph,
    values: dict[str, Value],
    subgraphs: dict[str, Graph],
    stored: _Stored,
) -> tuple[Value, ...]:
    if name == "input":
        raise ParseError("an input stands in the signature")
    try:
        primitive = get(name)
    except KeyError:
        raise ParseError(f"there is no primitive {name}") from None
    args = [_find(values, ast.unparse(a), "value") for a in call.args]
    params: dict[str, Any] = {}
    for keyword in call.keywords:
        kind = _find(primitive.params, str(keyword.arg), f"parameter of {name} called")
        value = params_.KINDS[kind].parse(keyword.value)
        if kind == "graph":
            value = _find(subgraphs, value, "subgraph")
        elif kind == "graphs":
            value = tuple(_find(subgraphs, word, "subgraph") for word in value)
        params[str(keyword.arg)] = value
    if name == "constant" and params["id"] in stored.constants:
        graph.constants[params["id"]] = stored.constants[params["id"]]
    return graph.add(primitive, args, params)


def _parse_type(node: ast.expr) -> Type:
    return TOKEN if isinstance(node, ast.Name) and node.id == "token" else params_.parse_type(node)
