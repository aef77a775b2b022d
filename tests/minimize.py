"""The graph minimiser: shrinks a failing program while it keeps failing, and prints it as a script.

It tries, until nothing smaller fails: sizes as numbers instead of symbols; a single output, at first every earlier
value in turn, so that what follows the culprit goes; then runs of nodes replaced by arguments that hold their
interpreted values, long runs first (the idea of delta debugging: Zeller and Hildebrandt, *Simplifying and Isolating
Failure-Inducing Input*, IEEE TSE 28, 2002), so that what precedes it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.rewrite import specialize
from zenith.errors import ZenithError
from zenith.ir.graph import Graph, Value
from zenith.ir.interpret import bind_sizes, interpret
from zenith.ir.types import ArrayType
from zenith.ir.verify import verify

Case = tuple[Graph, list[Any]]


def minimize(graph: Graph, args: Sequence[Any], fails: Callable[[Graph, list[Any]], bool]) -> Case:
    """The smallest program found for which ``fails(graph, args)`` still holds, and its arguments."""
    case: Case = (graph, list(args))
    while True:
        smaller = (c for c in _candidates(*case) if _weight(*c) < _weight(*case) and _runs(*c) and fails(*c))
        found = next(smaller, None)
        if found is None:
            return case
        case = found


def _weight(graph: Graph, args: Sequence[Any]) -> tuple[int, ...]:
    elements = sum(np.size(a) for a in args)
    return len(graph) - len(graph.inputs), len(graph.outputs), len(graph.symbols()), len(args), elements


def _runs(graph: Graph, args: Sequence[Any]) -> bool:
    """Whether the reference still computes it; without its inputs a size may be unknown."""
    try:
        interpret(verify(graph), *args)
    except (ZenithError, KeyError):
        return False
    return True


def _candidates(graph: Graph, args: list[Any]) -> Iterator[Case]:
    yield specialize(graph, bind_sizes(graph, args, {})), args
    computed = [(n, node) for n, node in graph.nodes() if node.primitive.name != "input"]
    for number, node in computed:
        for output, type in enumerate(node.types):
            yield _cut(graph, args, [Value(number, output, type)], {})
    yield _cut(graph, args, graph.outputs, {})
    values = _interpreted(graph, args)
    run = len(computed)
    while run := run // 2:
        for start in range(0, len(computed), run):
            taken = [
                n for n, node in computed[start : start + run] if all(isinstance(t, ArrayType) for t in node.types)
            ]
            yield _cut(graph, args, graph.outputs, {n: values[n] for n in taken})


def _interpreted(graph: Graph, args: Sequence[Any]) -> dict[int, list[Any]]:
    """Every node's results."""
    every = graph.beginning(len(graph))
    every.set_outputs(value for n, _ in graph.nodes() for value in graph.results(n))
    results = iter(interpret(every, *args))
    return {n: [next(results) for _ in node.types] for n, node in graph.nodes()}


def _cut(graph: Graph, args: Sequence[Any], outputs: Sequence[Value], known: dict[int, list[Any]]) -> Case:
    """The ancestors of ``outputs``, with the nodes in ``known`` as arguments that hold their results."""
    needed, given = _needed(graph, outputs, known), dict(zip((v.node for v in graph.inputs), args, strict=True))
    copy, values, new_args = Graph(graph.name), {}, []
    copy.weights = graph.weights
    names = {graph.node(v.node).params["name"] for v in graph.inputs}
    for number, node in graph.nodes():
        if number not in needed:
            continue
        if number in known:
            for i, array in enumerate(known[number]):
                name = next(n for k in range(len(names) + 1) if (n := f"known{k}") not in names)
                names.add(name)
                values[number, i] = copy.add_input(node.types[i], name, node.line)
                new_args.append(array)
        elif number in given:
            values[number, 0] = copy.add_input(node.types[0], node.params["name"], node.line)
            new_args.append(given[number])
        elif node.primitive.name == "constant":
            values[number, 0] = copy.add_constant(graph.constants[node.params["id"]], node.line)
        else:
            operands = [values[a.node, a.output] for a in graph.args(number)]
            results = copy.add(node.primitive, operands, node.params, node.line)
            values.update({(number, r.output): r for r in results})
    copy.set_outputs(values[v.node, v.output] for v in outputs)
    return copy, new_args


def _needed(graph: Graph, outputs: Sequence[Value], known: dict[int, list[Any]]) -> set[int]:
    needed, open_ = set(), [v.node for v in outputs]
    while open_:
        number = open_.pop()
        if number not in needed:
            needed.add(number)
            open_ += [] if number in known else [a.node for a in graph.args(number)]
    return needed


def as_script(graph: Graph, args: Sequence[Any], check: str = "print(*interpret(graph, *args), sep='\\n')") -> str:
    """A Python script that builds the program and its arguments and runs ``check`` on ``graph`` and ``args``."""
    text = str(graph)
    quoted = repr(text) if '"""' in text else f'r"""{text}"""'
    constants = "".join(f"    {name!r}: {_array(array)},\n" for name, array in graph.constants.items())
    arguments = "".join(f"    {_array(a)},\n" for a in args)
    return (
        "import numpy as np\nfrom numpy import inf, nan\n\nimport zenith.ir.ops\n"
        "from zenith.ir.interpret import interpret\nfrom zenith.ir.text import parse\n\n"
        f"constants = {{\n{constants}}}\nargs = [\n{arguments}]\ngraph = parse({quoted}, constants)\n{check}\n"
    )


def _array(array: Any) -> str:
    if array is None:
        return "None"
    array = np.asarray(array)
    flat, seen = array.reshape(-1), ""
    if array.dtype.kind == "c":  # real and imaginary part: a sum of them, which Python prints, loses signs of zeros
        flat, seen = flat.view(array.real.dtype), f".view(np.{array.dtype.name})"
    return f"np.array({flat.tolist()}, np.{flat.dtype.name}){seen}.reshape({array.shape})"
