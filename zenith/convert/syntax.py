"""Small pieces of syntax trees that conversion makes: calls of its runtime, functions in place of statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TypeGuard, TypeVar

Node = TypeVar("Node", bound=ast.AST)

RUNTIME = "_zenith"  # the name of the runtime in converted functions
_ENDLESS = frozenset({"count", "repeat", "cycle"})  # of itertools; other things have methods of these names
_ITERATORS = _ENDLESS | frozenset({
    "range", "enumerate", "zip", "reversed", "product", "combinations", "ndindex", "ndenumerate", "map", "filter",
})  # fmt: skip


_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def blocks(statement: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    """The blocks of a statement that are not empty: for each the node that has it, and the name of its field.

    Functions and classes have none here, as what is inside of them runs at another time.
    """
    if not isinstance(statement, _OWN_SCOPE):
        for owner in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            for field in ("body", "orelse", "finalbody"):
                if getattr(owner, field, None):
                    yield owner, field


class OfOneFunction(ast.NodeTransformer):
    """A transformation of a function's statements; functions and classes inside are converted when they are called."""

    def made_of(self, node: ast.stmt) -> list[ast.stmt]:
        """The statements in place of one."""
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    def descend(self, node: Node) -> Node:
        """A node that stays what it is, once what is inside of it has been transformed."""
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node


def name(text: str, context: ast.expr_context | None = None) -> ast.Name:
    """A name, which is read by default."""
    return ast.Name(text, context or ast.Load())


def placed(made: Node, near: ast.AST) -> Node:
    """A node that has been made, with what is in it, at the place of another one."""
    return ast.fix_missing_locations(ast.copy_location(made, near))


def assign(text: str, value: ast.expr, near: ast.AST) -> ast.Assign:
    """The assignment of a value to a name."""
    return ast.copy_location(ast.Assign([ast.copy_location(name(text, ast.Store()), near)], value), near)


def runtime_call(function: str, args: Sequence[ast.expr], near: ast.AST) -> ast.Call:
    """A call of a function of the runtime, at the first line of a node."""
    call = ast.Call(ast.Attribute(name(RUNTIME), function, ast.Load()), list(args), [])
    for made in (call, call.func):
        ast.copy_location(made, near)
        if made.end_lineno != made.lineno:  # Python says of calls that span lines that they are at the last one
            made.end_lineno, made.end_col_offset = made.lineno, made.col_offset + 1
    return ast.fix_missing_locations(call)


def later(expression: ast.expr) -> ast.Lambda:
    """An expression as a function, which computes it when it is called."""
    return ast.copy_location(ast.Lambda(arguments(), expression), expression)


def arguments(*names: str) -> ast.arguments:
    """The parameters of a function."""
    return ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])


def function(
    called: str, parameters: Sequence[str], changed: Sequence[str], body: Sequence[ast.stmt], near: ast.AST,
    globals: Sequence[str] = (),
) -> ast.stmt:  # fmt: skip
    """The definition of a function that assigns names of the function around it, and global ones."""
    start: list[ast.stmt] = [ast.Nonlocal(list(changed))] if changed else []
    start += [ast.Global(list(globals))] if globals else []
    made = ast.FunctionDef(called, arguments(*parameters), [*start, *body] or [ast.Pass()], [])
    return placed(made, near)


def set_flag(flag: str, value: bool, near: ast.AST) -> ast.stmt:
    """The assignment of a truth to a name."""
    return assign(flag, ast.copy_location(ast.Constant(value), near), near)


def names_a_value(expression: ast.AST) -> bool:
    """Whether an expression assigns a name, by ``:=``."""
    return any(isinstance(node, ast.NamedExpr) for node in ast.walk(expression))


def words(texts: Sequence[str]) -> ast.Tuple:
    """A tuple of strings."""
    return ast.Tuple([ast.Constant(text) for text in texts], ast.Load())


def last_word(node: ast.expr) -> str:
    """``mgrid`` of ``mgrid`` and of ``np.mgrid``; nothing for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_iterator(node: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression is a call of ``range`` and its like."""
    if not isinstance(node, ast.Call) or last_word(node.func) not in _ITERATORS:
        return False
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return last_word(node.func) not in _ENDLESS or owner is None or last_word(owner) == "itertools"
