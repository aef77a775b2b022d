"""User kernels: a user's Python function as the kernel of every group that matches its pattern.

The function ``kernel(begin, end, inputs..., outputs..., sizes...)`` runs the tasks ``[begin, end)`` on flat buffers, in
the language of generated kernels: loops, assignments and the names of :mod:`zenith.backends.scalars`. Its statements
become the body of a kernel, with its own names renamed where the program has such a size.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from zenith.backends.engines import Engine, Refusal
from zenith.backends.kernel import Bind, Kernel, UserCode
from zenith.backends.lower.nest import KernelInterface, scalar_cost
from zenith.backends.lower.words import RESERVED
from zenith.backends.match import Match, match
from zenith.backends.scalars import NAMESPACE
from zenith.backends.target import Target
from zenith.errors import UnsupportedError
from zenith.ir.dims import Dim, dim, product
from zenith.ir.graph import Graph

BUILTINS = {"range", "min", "max", "abs"}
_STATEMENTS = (ast.For, ast.While, ast.If, ast.Assign, ast.AugAssign, ast.Pass, ast.Break, ast.Continue)


@dataclass(frozen=True, slots=True)
class KernelDefinition:
    """A user's kernel: parameters, statements, the pattern that it computes, and how many tasks it has."""

    name: str
    pattern: Graph
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: tuple[str, ...]
    tasks: Dim
    statements: tuple[ast.stmt, ...]


def written_kernel(function: Callable[..., Any], pattern: Graph, tasks: Dim | None) -> KernelDefinition:
    """Read a function; UnsupportedError names what a kernel cannot do."""
    definition = _definition(function)
    first, end = len(pattern.inputs), len(pattern.inputs) + len(pattern.outputs)
    begin, stop, *rest = [a.arg for a in definition.args.args] + ["", ""]
    names = [name for name in rest if name]
    known = {s for v in (*pattern.inputs, *pattern.outputs) for size in v.shape for s in size.symbols()}
    if (begin, stop) != ("begin", "end") or len(names) < end or not known >= {*names[end:]}:
        raise UnsupportedError(
            f"the parameters of {definition.name} are {', '.join(a.arg for a in definition.args.args)}",
            fix=f"begin, end, {first} inputs, {end - first} outputs, and any of the sizes {', '.join(sorted(known))}",
        )
    body = definition.body[1:] if ast.get_docstring(definition) is not None else definition.body
    _check_language(definition.name, body, {"begin", "end", *names})
    count = product(pattern.outputs[0].shape) if tasks is None else tasks
    inputs, outputs, sizes = tuple(names[:first]), tuple(names[first:end]), tuple(names[end:])
    return KernelDefinition(definition.name, pattern, inputs, outputs, sizes, count, tuple(body))


def _definition(function: Callable[..., Any]) -> ast.FunctionDef:
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise UnsupportedError(
            f"the source of {function} cannot be read: {error}", fix="write the kernel in a file or a notebook's cell"
        ) from None
    if not isinstance(definition, ast.FunctionDef):
        raise UnsupportedError("a kernel is a function that is written with def")
    return definition


def _check_language(name: str, body: Iterable[ast.stmt], known: set[str]) -> None:
    module = ast.Module(list(body), [])
    for node in ast.walk(module):
        if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS):
            raise UnsupportedError(
                f"{name} has a statement that kernels do not have: {ast.unparse(node).splitlines()[0]}",
                fix="write loops, conditions and assignments",
            )
    used = {n.id for n in ast.walk(module) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    bound = {n.id for n in ast.walk(module) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    unknown = used - bound - known - BUILTINS - NAMESPACE.keys()
    if unknown or bound & (NAMESPACE.keys() | BUILTINS | {"args"}):
        raise UnsupportedError(
            f"{name} uses names that kernels do not know or cannot change: {', '.join(sorted(unknown or bound))}",
            fix="use its parameters, its own variables, and the names in zenith.backends.scalars",
        )


def engine_of(
    written: KernelDefinition, kind: str, accepts: Callable[..., bool] | None, priority: int, cost: float, doc: str
) -> Engine:
    """The engine that computes groups of ``kind`` with a written kernel where they match its pattern.

    ``accepts(*types)`` is asked for the types of the inputs; False refuses.
    """

    def answer(body: Graph, target: Target) -> float | Refusal:
        found = match(written.pattern, body)
        if isinstance(found, str):
            return Refusal(found)
        types = [v.type for name in found.inputs for v in body.inputs if body.node(v.node).params["name"] == name]
        if accepts is not None and not accepts(*types):
            return Refusal(f"its predicate refuses {', '.join(map(str, types))}")
        return cost

    def lower(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
        found = match(written.pattern, body)
        assert isinstance(found, Match), "an engine lowers what it accepted"
        return [_kernel(written, body, found)]

    return Engine(written.name, (kind,), doc, priority, answer, lower)


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


def _kernel(written: KernelDefinition, body: Graph, found: Match) -> Kernel:
    face = KernelInterface.of(body)
    e = face.builder()
    e.taken -= RESERVED  # begin and end are the function's own, too
    names = {"begin": "begin", "end": "end", **dict(zip(written.inputs, found.inputs, strict=True))}
    names.update(zip(written.outputs, face.outputs, strict=True))
    for size in written.sizes:
        names[size] = e.fresh(size)
        e.append(Bind(names[size], found.sizes[size]))
    module = ast.Module(list(written.statements), [])
    own = {n.id for n in ast.walk(module) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - names.keys()
    names.update({name: e.fresh(name) for name in sorted(own)})
    text = ast.unparse(_Rename(names).visit(ast.parse(ast.unparse(module))))
    e.append(UserCode(text, (*found.inputs, *face.outputs)))
    tasks = written.tasks.substitute(found.sizes)
    elements = product(body.outputs[0].shape)
    cost = (elements // tasks if tasks != 0 else dim(1)) * scalar_cost(body)
    return Kernel("kernel", written.name, face.buffers, face.symbols, tasks, cost, e.close())
