"""``raise``, ``assert`` and ``try`` before jumps are lowered: an assertion is a branch that raises.

What a ``try`` with handlers around it may catch does not leave the function, and is marked; its block runs in a context
that says so to functions that are called there.
"""

from __future__ import annotations

import ast
import copy
import dis
import functools
import itertools
import sys
import types
from collections.abc import Container, Mapping, Sequence
from inspect import getattr_static
from typing import Protocol

import numpy as np

from zenith.convert.closures import free_variables
from zenith.convert.syntax import OfOneFunction, later, name, runtime_call
from zenith.errors import is_library


class MayRaise(Protocol):
    """Whether a part of a function calls what raises exceptions, or may; with ``certain``, what is known to."""

    def __call__(self, part: ast.AST, certain: bool = False) -> bool: ...


def prepare_exceptions(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function with assertions as branches, and blocks of ``try`` in contexts."""
    prepared = _Exceptions()
    return [ast.fix_missing_locations(s) for statement in body for s in prepared.made_of(statement)]


def leaves(node: ast.AST) -> bool:
    """Whether a statement raises an exception that leaves the function."""
    return isinstance(node, ast.Raise) and node.exc is not None and not getattr(node, "caught", False)


def callees(function: types.FunctionType) -> frozenset[tuple[str, object]]:
    """What the answers of :func:`may_raise` follow from, beside the function's code."""
    known = ((text, getattr(value, "__func__", value)) for text, value in _names_of(function).items())
    return frozenset((text, value.__code__) for text, value in known if isinstance(value, types.FunctionType))


def may_raise(function: types.FunctionType) -> MayRaise:
    """Whether an expression or statement of a function calls functions that raise exceptions, or may: local names.

    Where it has to be ``certain``, only those that are known to.
    """
    code, known = function.__code__, _names_of(function)
    raising = {name for name, value in known.items() if _raises(value, set())}
    raising |= {c.co_name for c in code.co_consts if isinstance(c, types.CodeType) and _raises_itself(c)}
    local = {*code.co_varnames, *code.co_cellvars, *(set(code.co_freevars) - known.keys())}

    def calls(part: ast.AST, certain: bool = False) -> bool:
        names = raising if certain else raising | local
        called = (node.func for node in ast.walk(part) if isinstance(node, ast.Call))
        return any(_is_raising(one, names, known) or (not certain and _is_unknown(one, known)) for one in called)

    return calls


def _is_raising(called: ast.expr, raising: Container[str], known: Mapping[str, object]) -> bool:
    """Whether what is called is known to raise: a name, or a method of ``self`` or of what a name has."""
    if isinstance(called, ast.Name):
        return called.id in raising
    if not (isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)):
        return False
    owner = called.value.id
    return owner == "self" or (owner in known and _raises(getattr_static(known[owner], called.attr, None), set()))


def _is_unknown(called: ast.expr, known: Mapping[str, object]) -> bool:
    """Whether it is an item, or a method of an object that is not known, which arrays and containers have not."""
    if not isinstance(called, ast.Attribute):
        return isinstance(called, ast.Subscript)
    if isinstance(called.value, ast.Name) and called.value.id in known:
        return False
    return _root(called) not in known and not any(hasattr(kind, called.attr) for kind in _OTHERS)


_OTHERS = (np.ndarray, list, dict, set, str, bytes, float, complex, np.random.Generator)


def _root(node: ast.expr) -> str:
    """The name from which an expression takes attributes."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names_of(function: types.FunctionType) -> Mapping[str, object]:
    """What the names around a function are that it reads."""
    names = function.__code__.co_names
    return {n: function.__globals__[n] for n in names if n in function.__globals__} | free_variables(function)


def _raises(value: object, seen: set[types.CodeType]) -> bool:
    """Whether a value is a function of the user's that raises an exception, itself or in one that it calls."""
    if (wrapped := getattr_static(value, "__wrapped__", None)) is not None and _raises(wrapped, seen):
        return True
    value = _function_of(value)
    if not isinstance(value, types.FunctionType) or value.__code__ in seen or is_library(value.__code__.co_filename):
        return False
    seen.add(value.__code__)
    if _raises_itself(value.__code__):
        return True
    for other in _names_of(value).values():
        parts = [getattr_static(other, n, None) for n in value.__code__.co_names if not _is_of_library(other)]
        if any(_raises(part, seen) for part in (other, *parts)):
            return True
    return False


def _function_of(value: object) -> object:
    """The function that runs when a value is called."""
    value = getattr(value, "__func__", value)  # of methods, and static and class methods
    if isinstance(value, functools.partial):
        return _function_of(value.func)
    if isinstance(value, type):
        return getattr(value, "__init__", None)
    called = getattr_static(type(value), "__call__", None)
    return called if isinstance(called, types.FunctionType) else value


def _is_of_library(value: object) -> bool:
    """Whether a module, or the class of an object, is no user's."""
    module = value if isinstance(value, types.ModuleType) else sys.modules.get(getattr(value, "__module__", ""))
    return is_library(getattr(module, "__file__", None) or "")


@functools.lru_cache(maxsize=1024)
def _raises_itself(code: types.CodeType) -> bool:
    """Whether a function, or one inside of it, has a ``raise``, or calls what a local name has, which may raise."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    steps = [step.opname for step in dis.get_instructions(code)]
    calls = any("PUSH_NULL" in pair and any(map(_loads_local, pair)) for pair in itertools.pairwise(steps))
    return calls or "RAISE_VARARGS" in steps or any(map(_raises_itself, inner))


def _loads_local(operation: str) -> bool:
    return operation.startswith(("LOAD_FAST", "LOAD_DEREF"))


class _Exceptions(OfOneFunction):
    """The preparation; ``_caught`` counts the ``try`` with handlers around a statement."""

    def __init__(self) -> None:
        self._caught = 0

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        node.caught = self._caught > 0  # type: ignore[attr-defined]
        return node

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        if not __debug__:
            return []
        error = runtime_call("assertion_error", [] if node.msg is None else [node.msg], node)
        failing = self.visit_Raise(ast.copy_location(ast.Raise(error, None), node))
        test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        return [ast.copy_location(ast.If(test, [failing], []), node)]

    def visit_With(self, node: ast.With) -> ast.stmt:
        """``with``, whose context may look at an exception, or swallow it."""
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = runtime_call("entered", [item.context_expr], item.context_expr)
        return node

    def visit_Try(self, node: ast.Try) -> ast.stmt:
        if not node.handlers:
            return self.descend(node)
        self._caught += 1
        inside = [s for statement in node.body for s in self.made_of(statement)]
        self._caught -= 1
        kinds = [h.type or name("BaseException") for h in node.handlers]
        caught = later(ast.copy_location(ast.Tuple(copy.deepcopy(kinds), ast.Load()), node))
        context = ast.withitem(runtime_call("Catching", [caught], node), None)
        node.body = [ast.copy_location(ast.With([context], inside), node)]
        for owner, part in (*((h, "body") for h in node.handlers), (node, "orelse"), (node, "finalbody")):
            setattr(owner, part, [s for statement in getattr(owner, part) for s in self.made_of(statement)])
        return node
