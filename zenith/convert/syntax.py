"""Small pieces of syntax trees that conversion makes: calls of its runtime, functions in place of statements."""

from __future__ import annotations

import ast
from collections.abc import Sequence

RUNTIME = "_zenith"  # the name of the runtime in converted functions


class OfOneFunction(ast.NodeTransformer):
    """A transformation of a function's statements; functions and classes inside are converted when they are called."""

    def made_of(self, node: ast.stmt) -> list[ast.stmt]:
        """The statements in place of one."""
        found = self.visit(node)
        return found if isinstance(found, list) else [found]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node


def name(text: str, context: ast.expr_context | None = None) -> ast.Name:
    """A name, which is read by default."""
    return ast.Name(text, context or ast.Load())


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
    return ast.fix_missing_locations(ast.copy_location(made, near))


def set_flag(flag: str, value: bool, near: ast.AST) -> ast.stmt:
    """The assignment of a truth to a name."""
    made = ast.Assign([name(flag, ast.Store())], ast.Constant(value))
    for node in (made, made.targets[0], made.value):
        ast.copy_location(node, near)
    return made


def names_a_value(expression: ast.AST) -> bool:
    """Whether an expression assigns a name, by ``:=``."""
    return any(isinstance(node, ast.NamedExpr) for node in ast.walk(expression))


def words(texts: Sequence[str]) -> ast.Tuple:
    """A tuple of strings."""
    return ast.Tuple([ast.Constant(text) for text in texts], ast.Load())


def last_word(node: ast.expr) -> str:
    """``mgrid`` of ``mgrid`` and of ``np.mgrid``; nothing for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
