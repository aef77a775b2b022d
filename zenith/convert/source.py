"""From a function to its syntax tree and back: what it was written as, and a function with another body.

The tree is that of the whole file, so that every node has the line and column that the user sees. A function is found
there by its first line and its name, a lambda by the columns of its instructions. The new function has the old one's
globals, defaults, attributes and closure: it shares the cells of variables with it.
"""

from __future__ import annotations

import ast
import copy
import functools
import linecache
import os
import time
import types
import weakref
from collections.abc import Callable, Iterator, Sequence

from zenith.annotations import annotate_like
from zenith.convert.syntax import RUNTIME, arguments
from zenith.errors import TraceError

Definition = ast.FunctionDef | ast.Lambda


def definition(code: types.CodeType) -> tuple[Definition, str] | None:
    """A copy of the tree that a code object was compiled from, and the class around it; None where there is none."""
    linecache.checkcache(code.co_filename)
    lines = tuple(linecache.getlines(code.co_filename))
    tree = _parsed(code.co_filename, lines)
    if tree is None:
        return None
    found = [(node, owner) for node, owner in _definitions(tree, "") if _is_source(node, code)]
    if not found:
        return None
    _check_unchanged(lines, code)
    node, owner = min(found, key=lambda pair: _length(pair[0]))  # of lambdas inside of each other, the innermost
    return copy.deepcopy(node), owner


def _check_unchanged(lines: tuple[str, ...], code: types.CodeType) -> None:
    """TraceError where the file has been written since Zenith was imported, and a function in it is another one now."""
    try:
        is_new = os.stat(code.co_filename).st_mtime > _STARTED
    except OSError:  # of a notebook's cell
        return
    if is_new and code not in _made and code not in _codes_of_file(code.co_filename, lines, code.co_flags & _FUTURE):
        raise TraceError(f"{code.co_filename} has been changed since Python read {code.co_name} there",
                         fix="reload the module, or start Python again")  # fmt: skip


@functools.lru_cache(maxsize=64)
def _codes_of_file(file: str, lines: tuple[str, ...], futures: int) -> frozenset[types.CodeType]:
    """What functions of a file are compiled to."""
    return frozenset(_codes(compile("".join(lines), file, "exec", futures, dont_inherit=True)))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


_STARTED = time.time()
_made: weakref.WeakSet[types.CodeType] = weakref.WeakSet()  # also of the functions inside


@functools.lru_cache(maxsize=64)
def _parsed(file: str, lines: tuple[str, ...]) -> ast.Module | None:
    try:
        return ast.parse("".join(lines), file)
    except (SyntaxError, ValueError):
        return None


def _definitions(node: ast.AST, owner: str) -> Iterator[tuple[Definition, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.Lambda)):
            yield child, owner
        yield from _definitions(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _is_source(node: Definition, code: types.CodeType) -> bool:
    if isinstance(node, ast.FunctionDef):
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        return node.name == code.co_name and first == code.co_firstlineno
    if code.co_name != "<lambda>" or node.lineno != code.co_firstlineno:
        return False
    body = node.body
    start, stop = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    places = [
        ((line, column), (end_line or 0, end_column or 0))
        for line, end_line, column, end_column in code.co_positions()
        if line is not None and column is not None and (line, column) != (end_line, end_column)
    ]
    return any(True for _ in places) and all(start <= a and b <= stop for a, b in places)


def _length(node: Definition) -> int:
    return sum(1 for _ in ast.walk(node))


def function_of(original: types.FunctionType, code: types.CodeType, runtime: object) -> Callable[..., object]:
    """A function with the converted code of an original one, whose closure and attributes it shares."""
    cells = dict(zip(original.__code__.co_freevars, original.__closure__ or (), strict=True))
    cells[RUNTIME] = types.CellType(runtime)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, original.__globals__, original.__name__, original.__defaults__, closure)
    made.__kwdefaults__ = original.__kwdefaults__
    made.__qualname__, made.__doc__, made.__module__ = original.__qualname__, original.__doc__, original.__module__
    annotate_like(made, original)
    made.__dict__.update(original.__dict__)
    made.__dict__[RUNTIME] = code  # it is converted
    return made


def compiled(code: types.CodeType, node: Definition, body: Sequence[ast.stmt]) -> types.CodeType:
    """The code of the new function, compiled inside of one that binds the names of its closure."""
    inner = ast.FunctionDef("_zenith_function", _without_values(node.args), list(body), [])
    ast.copy_location(inner, node)
    free = [*code.co_freevars, RUNTIME]
    outer = ast.FunctionDef("_zenith_factory", arguments(*free), [inner], [])
    module = ast.Module([ast.fix_missing_locations(ast.copy_location(outer, node))], [])
    whole = compile(module, code.co_filename, "exec", dont_inherit=True, flags=code.co_flags & _FUTURE)
    (factory,) = (c for c in whole.co_consts if isinstance(c, types.CodeType))
    (found,) = (c for c in factory.co_consts if isinstance(c, types.CodeType))
    made = _named(found, code)
    _made.update(_codes(made))
    return made


_FUTURE = 0x1FF0000  # what `from __future__ import` sets in the flags of code


def _named(code: types.CodeType, original: types.CodeType) -> types.CodeType:
    """The code under the name of the original, and so the functions in place of statements, which errors name."""
    inner = tuple(
        _named(c, original) if isinstance(c, types.CodeType) and c.co_name.startswith("_zenith_") else c
        for c in code.co_consts
    )
    return code.replace(co_name=original.co_name, co_qualname=original.co_qualname, co_consts=inner)


def _without_values(given: ast.arguments) -> ast.arguments:
    """Parameters without annotations; their defaults are the original's objects, and constants hold their places."""
    found = copy.deepcopy(given)
    for argument in ast.walk(found):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    found.defaults = [ast.Constant(None) for _ in found.defaults]
    found.kw_defaults = [None if d is None else ast.Constant(None) for d in found.kw_defaults]
    return found


class PrivateNames(ast.NodeTransformer):
    """Names ``__x`` of a class, as Python mangles them: ``_Owner__x``."""

    def __init__(self, owner: str) -> None:
        self._owner = owner.lstrip("_")

    def _mangled(self, text: str) -> str:
        private = text.startswith("__") and not text.endswith("__") and self._owner
        return f"_{self._owner}{text}" if private else text

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self._mangled(node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._mangled(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._mangled(node.arg)
        return self.generic_visit(node)


def returning(expression: ast.expr) -> ast.stmt:
    """The body of a lambda as a statement."""
    return ast.copy_location(ast.Return(expression), expression)
