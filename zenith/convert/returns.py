"""``return`` and ``raise`` in loops, of values that the loop does not assign: they are computed once it has ended.

What a ``return`` in a converted loop gives would be carried from turn to turn, arrays copied, though it is computed in
one of them. After it nothing else runs in the loop. So where the names in it are not assigned there, leaving the loop
by ``break``, and returning behind it, is the same::

    for i in range(n):                 left = False
        if x[i] > limit:               for i in range(n):
            return x, True      -->        if x[i] > limit:
                                               left = True
                                               break
                                       if left:
                                           return x, True
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Sequence
from typing import TypeGuard

from zenith.convert import scopes
from zenith.convert.exceptions import leaves
from zenith.convert.flow import never_ends
from zenith.convert.syntax import blocks, name, names_a_value, set_flag

LEFT = "_zenith_left"
_Loop = ast.For | ast.While
_Left = Callable[[ast.Return | ast.Raise], list[ast.stmt]]  # what leaves the loop in place of a jump


def defer_returns(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function with such returns behind the loops, the innermost ones first."""
    names = map("{}{}".format, itertools.repeat(LEFT), itertools.count())
    return _block(body, lambda: next(names))


def _block(body: Sequence[ast.stmt], fresh: Callable[[], str]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for node in body:
        for owner, field in blocks(node):
            setattr(owner, field, _block(getattr(owner, field), fresh))
        # A loop that only a return ends needs none behind it.
        found += _loop(node, fresh) if isinstance(node, _Loop) and not never_ends(node) else [node]
    return found


def _loop(node: _Loop, fresh: Callable[[], str]) -> list[ast.stmt]:
    """A loop, between flags that say how it was left, and returns."""
    own = set(scopes.assigned([node])) | scopes.assigned_inside([node])
    before: list[ast.stmt] = []
    after: list[ast.stmt] = []

    def left(statement: ast.Return | ast.Raise) -> list[ast.stmt]:
        flag = fresh()
        before.append(set_flag(flag, False, node))
        test = ast.copy_location(name(flag), statement)
        after.append(ast.copy_location(ast.If(test, [statement], []), statement))
        return [set_flag(flag, True, statement), ast.copy_location(ast.Break(), statement)]

    node.body = _replaced(node.body, own, left)
    return [*before, node, *after]


def _replaced(body: Sequence[ast.stmt], own: set[str], left: _Left) -> list[ast.stmt]:
    """Statements of a loop; what is inside of ``with`` and ``try`` returns through these, and stays."""
    found: list[ast.stmt] = []
    for node in body:
        if isinstance(node, ast.If):
            node.body, node.orelse = _replaced(node.body, own, left), _replaced(node.orelse, own, left)
        found += left(node) if _jumps(node) and not _depends(node, own) else [node]
    return found


def _jumps(node: ast.stmt) -> TypeGuard[ast.Return | ast.Raise]:
    return isinstance(node, ast.Return) or leaves(node)


def _depends(node: ast.Return | ast.Raise, own: set[str]) -> bool:
    """Whether a jump needs names that its loop assigns, or assigns some itself."""
    return bool(scopes.loads([node]).keys() & own) or names_a_value(node)
