"""Operators, comparisons, subscripts and texts of a function as calls of the runtime.

``and``, ``or`` and conditional expressions compute their later operands only where they have to, so that these become
functions without parameters. What only Python's own objects answer, such as ``is``, goes through functions that first
ask what a name stands for.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from zenith.convert.syntax import (
    OfOneFunction,
    arguments,
    last_word,
    later,
    name,
    names_a_value,
    runtime_call,
)

_BRACKETS = frozenset({"mgrid", "ogrid", "r_", "c_"})  # NumPy's, which make arrays of what is between the brackets


class ExpressionRewriter(OfOneFunction):
    """The transformation of expressions that are no calls."""

    prints = False  # whether texts are for people, and not what is computed with

    def condition(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth counts."""
        if isinstance(node, ast.BoolOp):
            return self._connected(node, ("all_of", "any_of"), self.condition)
        return self.visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return self._connected(node, ("and_", "or_"), self.visit)

    def _connected(self, node: ast.BoolOp, called: tuple[str, str], visit: Callable[[ast.expr], ast.expr]) -> ast.expr:
        if any(map(names_a_value, node.values[1:])):
            return self.descend(node)
        first, *rest = map(visit, node.values)
        return runtime_call(called[isinstance(node.op, ast.Or)], [first, *map(later, rest)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return runtime_call("not_", [self.condition(node.operand)], node)
        node.operand = self.visit(node.operand)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """``[0.0] * n``, a list whose items the program may set, and ``"text %s" % values``."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult):
            node.left, node.right = as_item(node.left), as_item(node.right)
        elif isinstance(node.op, ast.Mod) and is_text(node.left) and not self.prints:
            node.right = runtime_call("formatted", [node.right], node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if names_a_value(node.body) or names_a_value(node.orelse):
            return self.descend(node)
        sides = [later(self.visit(side)) for side in (node.body, node.orelse)]
        return runtime_call("choose", [self.condition(node.test), *sides], node)

    def visit_List(self, node: ast.List) -> ast.expr:
        self.generic_visit(node)
        return node if node.elts or not isinstance(node.ctx, ast.Load) else runtime_call("list_", [], node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node

    # --- comparisons ---

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1 and any(map(names_a_value, node.comparators)):
            return self.descend(node)
        first, *rest = self._operands(node)
        if len(rest) == 1:
            return _comparison(node, first, rest[0])
        pairs: list[ast.expr] = []
        for operator, operand in zip(node.ops, rest, strict=True):
            sides = name("_zenith_left"), name("_zenith_right")
            step = _comparison(ast.copy_location(ast.Compare(sides[0], [operator], [sides[1]]), node), *sides)
            pairs += [ast.Lambda(arguments("_zenith_left", "_zenith_right"), step), later(operand)]
        return runtime_call("compare", [first, *pairs], node)

    def _operands(self, node: ast.Compare) -> list[ast.expr]:
        """The operands of a comparison; those whose identity is asked for have to be known."""
        operands = [self.visit(v) for v in (node.left, *node.comparators)]
        for k, operator in enumerate(node.ops):
            if isinstance(operator, (ast.Is, ast.IsNot)):
                pair = operands[k : k + 2]
                if any(_is_none(operand) or _is_truth(operand) for operand in pair):
                    continue  # which ask themselves
                called = "read" if any(isinstance(operand, ast.Constant) for operand in pair) else "identity"
                operands[k : k + 2] = [checked(operand, called) for operand in pair]
        return operands

    # --- attributes, items and texts ---

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        asks = node.attr == "__class__" and isinstance(node.ctx, ast.Load)
        return runtime_call("class_of", [node.value], node) if asks else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """``x[i]``, of which both may be of Python's while the other is of the program's."""
        self.generic_visit(node)
        if last_word(node.value) in _BRACKETS and isinstance(node.ctx, ast.Load):
            node.value = runtime_call("brackets", [node.value], node.value)
            return node
        if isinstance(node.slice, (ast.Constant, ast.Slice)):
            return node
        if isinstance(node.ctx, ast.Load):
            return runtime_call("item", [node.value, node.slice], node) if not _has_slice(node.slice) else node
        if isinstance(node.slice, ast.Name):
            node.slice = runtime_call("index_of", [node.slice], node.slice)
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        self.generic_visit(node)
        if not self.prints:
            node.value = runtime_call("formatted", [node.value], node)
        return node


def _comparison(node: ast.Compare, first: ast.expr, second: ast.expr) -> ast.expr:
    """One comparison of two operands, by the operator of ``node``."""
    (operator,), operands = node.ops, [first, second]
    if isinstance(operator, (ast.In, ast.NotIn)):
        called = "contains"
    elif not isinstance(operator, (ast.Is, ast.IsNot)):
        if any(isinstance(side, ast.Constant) for side in operands):
            node.left, node.comparators = first, [second]
            return node
        called, operands = "compared", [ast.Constant(type(operator).__name__), first, second]
    elif any(map(_is_truth, operands)):
        called = "is_truth"
    elif any(map(_is_none, (node.left, *node.comparators))):
        called, operands = "is_none", [second if _is_none(node.left) else first]
    else:
        called = "is_one"
    found = runtime_call(called, operands, node)
    return runtime_call("not_", [found], node) if isinstance(operator, (ast.NotIn, ast.IsNot)) else found


def checked(operand: ast.expr, called: str = "read") -> ast.expr:
    """An operand that has to be set in every case, by the function of the runtime that says so."""
    return operand if isinstance(operand, ast.Constant) else runtime_call(called, [operand], operand)


def as_item(node: ast.expr) -> ast.expr:
    """An item of a list: another list between brackets is one that the program may stack, too."""
    return runtime_call("list_", [node], node) if isinstance(node, ast.List) and node.elts else node


def is_text(node: ast.expr) -> bool:
    """Whether an expression is a string, with values in it or without."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _has_slice(index: ast.expr) -> bool:
    """Whether an index has slices or stars, which are no expressions."""
    return isinstance(index, ast.Tuple) and any(isinstance(i, (ast.Slice, ast.Starred)) for i in index.elts)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is bool
