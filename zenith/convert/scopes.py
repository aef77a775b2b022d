"""Names in syntax trees: which ones statements assign, which ones they read, and which may be read before being set.

Functions, lambdas and comprehensions inside of statements have scopes of their own: what they read of the scope around
counts as read, what they bind is theirs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes of statements, without those of nested functions' and classes' bodies."""
    pending = list(nodes)[::-1]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, _SCOPES):
            outside = [*getattr(node, "decorator_list", []), *_defaults(node)]
            pending.extend(outside[::-1])
        else:
            pending.extend(list(ast.iter_child_nodes(node))[::-1])


def _defaults(node: ast.AST) -> list[ast.expr]:
    given = getattr(node, "args", None)
    return [] if given is None else [d for d in [*given.defaults, *given.kw_defaults] if d is not None]


def assigned(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that statements bind, in the order of their first appearance."""
    found: dict[str, None] = {}
    for node in _outside_comprehensions(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.setdefault(node.id)
        elif (captured := _captured(node)) is not None:
            found.setdefault(captured)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.setdefault(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                found.setdefault((alias.asname or alias.name).split(".")[0])
    return list(found)


def _captured(node: ast.AST) -> str | None:
    """The name that a pattern of ``match`` binds."""
    if isinstance(node, ast.MatchMapping):
        return node.rest
    return node.name if isinstance(node, (ast.MatchAs, ast.MatchStar)) else None


def assigned_inside(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that functions inside of statements assign as ``nonlocal``, be it those of functions in between."""
    functions = [f for node in nodes for f in ast.walk(node) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {name for f in functions for s in ast.walk(f) if isinstance(s, ast.Nonlocal) for name in s.names}


def grown(nodes: Iterable[ast.AST]) -> set[str]:
    """The names of what statements append to."""
    found: set[str] = set()
    for node in own_nodes(nodes):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in ("append", "extend"):
            found |= {called.value.id} if isinstance(called.value, ast.Name) else set()
    return found


def rebound(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that statements bind to another object for sure, and not by an operator that may work in place."""
    inside = {id(n.target) for n in own_nodes(nodes) if isinstance(n, ast.AugAssign)}
    found = list(_outside_comprehensions(nodes))
    names = (n for n in found if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {n.id for n in names if id(n) not in inside} | {name for n in found if (name := _captured(n)) is not None}


def _outside_comprehensions(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """As :func:`own_nodes`, without the targets of comprehensions; what they assign by ``:=`` is the function's."""
    inner: set[int] = set()
    for node in own_nodes(nodes):
        if isinstance(node, _COMPREHENSIONS):
            inner.update(id(n) for g in node.generators for n in ast.walk(g.target))
        if id(node) not in inner:
            yield node


def loads(nodes: Iterable[ast.AST]) -> dict[str, int]:
    """How often each name is read, also by functions and comprehensions inside, of which it is no name of their own."""
    found: dict[str, int] = {}
    for node in nodes:
        _count_loads(node, frozenset(), found)
    return found


def _count_loads(node: ast.AST, own: frozenset[str], found: dict[str, int]) -> None:
    """Add how often names are read in a node, but for those in ``own``."""
    read: str | None = None
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        read = node.id
    elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        read = node.target.id
    if read is not None and read not in own:
        found[read] = found.get(read, 0) + 1
    if isinstance(node, _COMPREHENSIONS):  # whose first iterable is the scope's around
        _count_loads(node.generators[0].iter, own, found)
    inside = _inside(node)
    inner = own | _bound(node) if inside else own
    for child in inside:
        _count_loads(child, inner, found)
    for child in [] if isinstance(node, _COMPREHENSIONS) else ast.iter_child_nodes(node):
        if not any(child is one for one in inside):
            _count_loads(child, own, found)


def _inside(node: ast.AST) -> list[ast.AST]:
    """What of a node has a scope of its own."""
    if isinstance(node, ast.Lambda):
        return [node.body]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return list(node.body)
    if not isinstance(node, _COMPREHENSIONS):
        return []
    first, *others = node.generators
    results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    return [*results, first.target, *first.ifs, *others]


def parameters(given: ast.arguments) -> set[str]:
    """The names of a function's parameters."""
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {a.arg for a in every if a is not None}


def _bound(node: ast.AST) -> set[str]:
    """The names of the scope that a node has."""
    if isinstance(node, _COMPREHENSIONS):
        targets = (n for g in node.generators for n in ast.walk(g.target))
        return {n.id for n in targets if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if not isinstance(node, (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef)):
        return set()
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    declared = {name for s in own_nodes(body) if isinstance(s, (ast.Nonlocal, ast.Global)) for name in s.names}
    return parameters(node.args) | (set(assigned(body)) - declared)
