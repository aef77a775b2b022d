"""Control and data flow of statements: whether their end is reached, and which names are set where.

Definite assignment is the forward analysis of compilers: a name is set where every way there has set it.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Sequence

from zenith.convert import scopes
from zenith.convert.syntax import blocks


def always_jumps(body: Sequence[ast.stmt]) -> bool:
    """Whether the end of statements is never reached."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return always_jumps(last.body) and always_jumps(last.orelse)
    return never_ends(last) or isinstance(last, (ast.Return, ast.Raise, ast.Break, ast.Continue))


def _leaves_function(body: Sequence[ast.stmt]) -> bool:
    """Whether statements end the function."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _leaves_function(last.body) and _leaves_function(last.orelse)
    return isinstance(last, (ast.Return, ast.Raise))


def never_ends(node: ast.AST | None) -> bool:
    """Whether a statement is a loop that only ``return`` and exceptions leave."""
    if not (isinstance(node, ast.While) and isinstance(node.test, ast.Constant)):
        return False
    return bool(node.test.value) and not breaks(node.body)


def breaks(body: Sequence[ast.stmt]) -> bool:
    """Whether statements may leave the loop around them by ``break``."""
    for node in body:
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, (ast.For, ast.While)):
            if breaks(node.orelse):
                return True
        elif any(breaks(getattr(owner, field)) for owner, field in blocks(node)):
            return True
    return False


def exposed(statements: Iterable[ast.stmt]) -> set[str]:
    """The names that statements may read before they have set them."""
    return _Exposure().block(statements, set())[0]


def set_by_else(loop: ast.For | ast.While, own: Container[str]) -> set[str]:
    """The names that are set wherever ``break`` leaves a loop and where its ``else`` ends, and not read before.

    Where the ``else`` goes on with a loop around, or leaves it, only ``own`` names are: those that nothing else reads.
    """
    target = set(scopes.assigned([loop.target])) if isinstance(loop, ast.For) else set()
    body = _Exposure()
    early, _ = body.block(loop.body, target)
    otherwise, after = _Exposure().block(loop.orelse, set())
    ends = body.breaks if always_jumps(loop.orelse) else [after, *body.breaks]
    found = set.intersection(*ends) - early - otherwise - target if ends else set()
    return found if ends is not body.breaks or _leaves_function(loop.orelse) else {n for n in found if n in own}


class _Exposure:
    """The forward analysis of definite assignment; each method gives the names read too early, and those set.

    ``breaks`` are the names that are set at each ``break`` out of the statements.
    """

    def __init__(self) -> None:
        self.breaks: list[set[str]] = []

    def block(self, statements: Iterable[ast.stmt], known: set[str]) -> tuple[set[str], set[str]]:
        early: set[str] = set()
        for statement in statements:
            read, known = self.statement(statement, known)
            early |= read
        return early, known

    def statement(self, node: ast.stmt, known: set[str]) -> tuple[set[str], set[str]]:
        if isinstance(node, ast.If):
            early = self._reads([node.test], known)
            first, yes = self.block(node.body, set(known))
            second, no = self.block(node.orelse, set(known))
            return early | first | second, yes & no
        if isinstance(node, ast.While):
            early = self._reads([node.test], known)
            return early | self._loop(node, set(known)), known
        if isinstance(node, ast.For):
            early = self._reads([node.iter], known)
            return early | self._loop(node, known | set(scopes.assigned([node.target]))), known
        if isinstance(node, (ast.With, ast.Try, ast.Match)):
            self.breaks += [known] * breaks([node])
            return self._reads([node], known), known
        if isinstance(node, ast.Break):
            self.breaks.append(known)
        early = self._reads([node], known)
        return early, known | set(scopes.assigned([node]))

    def _loop(self, node: ast.For | ast.While, known: set[str]) -> set[str]:
        """The names that a loop inside reads too early."""
        inside = _Exposure().block(node.body, set(known))[0]
        return inside | self.block(node.orelse, set(known))[0]

    @staticmethod
    def _reads(nodes: Iterable[ast.AST], known: set[str]) -> set[str]:
        return set(scopes.loads(nodes)) - known
