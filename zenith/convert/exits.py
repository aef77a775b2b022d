"""``break``, ``continue``, ``return`` and ``raise`` inside of loops and branches, expressed by flags.

Converted loops and branches are functions, which nothing can jump out of. A jump sets a flag, what follows it runs only
where the flag is not set, and loops go on only as long as it is not. Where one side of a branch always jumps, what
follows the branch moves into its other side, and no flag is asked.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zenith.convert import scopes
from zenith.convert.exceptions import MayRaise, leaves
from zenith.convert.flow import always_jumps, set_by_else
from zenith.convert.syntax import assign, blocks, is_iterator, name, names_a_value, placed, runtime_call, set_flag

RETURNED, RESULT = "_zenith_returned", "_zenith_result"
VALUE, ELEMENT = "_zenith_value", "_zenith_element"


@dataclass
class _Lowered:
    """Statements, the flags that they may set, and whether they always jump."""

    statements: list[ast.stmt] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    always: bool = False


def lower_exits(body: Sequence[ast.stmt], may_raise: MayRaise) -> list[ast.stmt]:
    """A function's body without jumps but a ``return`` at its end.

    Loops get an attribute ``stops``: the flags that end them. What follows statements that ``may_raise`` an exception
    of the program in a function that they call is skipped where they have.
    """
    exits = _Exits(may_raise, scopes.loads(body))
    if not any(map(exits.inside, body)):
        return list(body)
    last = body[-1]
    closing = [] if always_jumps([last]) else [ast.copy_location(ast.Return(None), last)]
    lowered = exits.block([*body, *closing], None)
    start = [set_flag(RETURNED, False, body[0]), _unset(RESULT, body[0])]
    final = ast.copy_location(ast.Return(runtime_call("returned", [name(RESULT)], last)), last)
    return [ast.fix_missing_locations(s) for s in [*start, *lowered.statements, final]]


def _jumps_inside(statement: ast.stmt) -> bool:
    """Whether a statement holds a jump below a loop or branch, or a loop with an ``else``."""
    if any(isinstance(n, (ast.For, ast.While)) and n.orelse for n in _statements([statement])):
        return True
    compound = isinstance(statement, (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match))
    jumps = (ast.Break, ast.Continue, ast.Return)
    return compound and any(isinstance(n, jumps) or leaves(n) for n in _statements([statement]))


def _statements(nodes: Sequence[ast.stmt]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for node in nodes:
        found.append(node)
        for owner, part in blocks(node):
            found += _statements(getattr(owner, part))
    return found


def _is_simple(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign))


def _split(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Divide a store of elements or attributes, the last statement, in what it computes and the store, which is given.

    What a function returns that has raised an exception is not stored.
    """
    last = statements[-1]
    if isinstance(last, ast.AugAssign):
        return _split_in_place(statements, last)
    if not isinstance(last, ast.Assign) or not any(_stores_inside(target) for target in last.targets):
        return []
    statements[-1] = assign(VALUE, last.value, last.value)
    return [ast.copy_location(ast.Assign(last.targets, _load(VALUE, last)), last)]


def _split_in_place(statements: list[ast.stmt], last: ast.AugAssign) -> list[ast.stmt]:
    """``a[i] += f()``: the element is read before the function runs."""
    target, indices = last.target, ast.walk(last.target)
    if not _stores_inside(target) or any(isinstance(n, (ast.Call, ast.NamedExpr, ast.Await)) for n in indices):
        return []
    element = copy.deepcopy(target)
    for owner in ast.walk(element):
        if isinstance(getattr(owner, "ctx", None), ast.Store):
            owner.ctx = ast.Load()  # type: ignore[attr-defined]
    statements[-1:] = [assign(ELEMENT, element, element), assign(VALUE, last.value, last.value)]
    joined = ast.AugAssign(ast.copy_location(ast.Name(ELEMENT, ast.Store()), last), last.op, _load(VALUE, last))
    return [ast.copy_location(s, last) for s in (joined, ast.Assign([target], _load(ELEMENT, last)))]


def _stores_inside(target: ast.expr) -> bool:
    return any(isinstance(part, (ast.Subscript, ast.Attribute)) for part in ast.walk(target))


def _load(text: str, near: ast.AST) -> ast.expr:
    return ast.copy_location(name(text), near)


class _Exits:
    """The lowering; ``loop`` are the flags of the innermost loop: of its ``break``, and of its ``continue``."""

    def __init__(self, may_raise: MayRaise, loads: Mapping[str, int]) -> None:
        self._loads = loads  # of the function, by name
        self._numbers = itertools.count()
        self._may_raise = may_raise
        self._tries = 0  # around the current statement

    def inside(self, statement: ast.stmt) -> bool:
        """Whether a statement holds a jump below a loop or branch, or at any depth a call that may raise."""
        return _jumps_inside(statement) or any(map(self._calls, _statements([statement])))

    def _calls(self, statement: ast.stmt) -> bool:
        return self._may_raise(statement) if _is_simple(statement) else self._tests(statement)

    def _tests(self, statement: ast.stmt) -> bool:
        """Whether it is a branch or loop whose condition, or what it goes over, is known to call what raises."""
        head = getattr(statement, "test", None) or getattr(statement, "iter", None)
        asks = isinstance(statement, (ast.If, ast.While, ast.For)) and not getattr(statement, "begun", False)
        return asks and head is not None and self._may_raise(head, certain=True)

    def block(self, statements: Sequence[ast.stmt], loop: tuple[str, str] | None) -> _Lowered:
        found = _Lowered()
        for position, statement in enumerate(statements):
            rest = list(statements[position + 1 :])
            if isinstance(statement, (ast.If, ast.For)) and self._tests(statement):
                after = self.block([*_head_before(statement, next(self._numbers)), *rest], loop)
                return _Lowered([*found.statements, *after.statements], found.flags | after.flags, after.always)
            merged = _with_rest(statement, rest)
            one = self.statement(merged or statement, loop, rest)
            found.statements += one.statements
            found.flags |= one.flags
            if one.always or merged is not None:
                found.always = one.always
                return found
            if one.flags and rest:
                after = self.block(rest, loop)
                test = _none_of(one.flags, statement)
                found.statements.append(ast.copy_location(ast.If(test, after.statements, []), rest[0]))
                found.flags |= after.flags
                return found
            if _is_simple(statement) and self._calls(statement):
                rest = [*_split(found.statements), *rest]
                return self._unless_raised(found, statement, self.block(rest, loop))
        return found

    @staticmethod
    def _unless_raised(before: _Lowered, call: ast.stmt, after: _Lowered) -> _Lowered:
        """What follows a call of a function that may raise an exception of the program, where it has not."""
        test = runtime_call("raising", [], call)
        skipped = ast.copy_location(ast.If(test, _returned(call), after.statements), call)
        return _Lowered([*before.statements, skipped], before.flags | after.flags | {RETURNED}, after.always)

    def statement(self, node: ast.stmt, loop: tuple[str, str] | None, rest: Sequence[ast.stmt]) -> _Lowered:
        """One statement; ``rest`` is what follows it in its block."""
        if isinstance(node, ast.Return):
            value = node.value or ast.copy_location(ast.Constant(None), node)
            return _Lowered([assign(RESULT, value, node), *_returned(node)], {RETURNED}, True)
        if isinstance(node, (ast.Break, ast.Continue)) and loop is not None:
            flag = loop[isinstance(node, ast.Continue)]
            return _Lowered([set_flag(flag, True, node)], {flag}, True)
        if isinstance(node, ast.If):
            yes, no = self.block(node.body, loop), self.block(node.orelse, loop)
            branch = ast.copy_location(ast.If(node.test, yes.statements, no.statements), node)
            return _Lowered([branch], yes.flags | no.flags, yes.always and no.always)
        if isinstance(node, (ast.For, ast.While)):
            return self._loop(node, loop, rest)
        if isinstance(node, (ast.With, ast.Try, ast.Match)):
            return self._compound(node, loop)
        if leaves(node):
            return _Lowered([node, *_returned(node)], {RETURNED}, True)
        return _Lowered([node], set(), isinstance(node, ast.Raise))

    def _compound(self, node: ast.With | ast.Try | ast.Match, loop: tuple[str, str] | None) -> _Lowered:
        """A statement that stays what it is, with jumps in its blocks lowered."""
        found = _Lowered()
        self._tries += isinstance(node, ast.Try)
        for owner, part in blocks(node):
            block: list[ast.stmt] = getattr(owner, part)
            lowered = self.block(block, loop)
            statements = lowered.statements
            if part == "orelse" and found.flags:  # jumps have perhaps left the body of a ``try``
                guarded = ast.If(_none_of(found.flags, block[0]), statements, [])
                statements = [ast.copy_location(guarded, block[0])]
            setattr(owner, part, statements)
            found.flags |= lowered.flags
        self._tries -= isinstance(node, ast.Try)
        found.statements.append(node)
        return found

    def _loop(self, node: ast.For | ast.While, outer: tuple[str, str] | None, rest: Sequence[ast.stmt]) -> _Lowered:
        if isinstance(node, ast.While) and (self._tests(node) or (names_a_value(node.test) and self.inside(node))):
            return self.block(_tested_inside(node, f"_zenith_ended{next(self._numbers)}"), outer)
        number = next(self._numbers)
        broke, skipped = f"_zenith_broke{number}", f"_zenith_skipped{number}"
        inside = self.block(node.body, (broke, skipped))
        body = [set_flag(skipped, False, node)] * (skipped in inside.flags) + inside.statements
        stops = inside.flags - {skipped}
        if isinstance(node, ast.For):
            loop: ast.For | ast.While = ast.For(node.target, node.iter, body, [])
        else:
            loop = ast.While(node.test, body, [])
        loop.stops = stops  # type: ignore[union-attr]
        own = {n for n, count in scopes.loads([node, *rest]).items() if count == self._loads.get(n)}
        names = sorted(set_by_else(node, own)) if node.orelse and not self._tries else []  # a handler may read them
        start = [_unset(n, node, "until_else") for n in names]
        found = _Lowered([*start, *[set_flag(broke, False, node)] * (broke in stops)], stops - {broke})
        found.statements.append(ast.copy_location(loop, node))
        if node.orelse:
            after = self.block(node.orelse, outer)
            test = _none_of(stops, node) if stops else ast.copy_location(ast.Constant(True), node)
            found.statements.append(ast.copy_location(ast.If(test, after.statements, []), node))
            found.flags |= after.flags
        return found


def _head_before(node: ast.If | ast.For, number: int) -> list[ast.stmt]:
    return _tested_before(node, number) if isinstance(node, ast.If) else _begun_before(node, number)


def _tested_before(node: ast.If, number: int) -> list[ast.stmt]:
    """A branch whose condition is computed in front of it, where an exception is asked for."""
    tested = f"_zenith_tested{number}"
    answer = ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), node.test))
    branch = ast.copy_location(ast.If(_load(tested, node.test), node.body, node.orelse), node)
    return [assign(tested, placed(answer, node.test), node.test), branch]


def _begun_before(node: ast.For, number: int) -> list[ast.stmt]:
    """A loop in front of which is computed what it goes over, or what ``range`` and its like are given."""
    before: list[ast.stmt] = []

    def computed(part: ast.expr) -> ast.expr:
        if is_iterator(part):
            keywords = [ast.keyword(k.arg, computed(k.value)) for k in part.keywords]
            return ast.copy_location(ast.Call(part.func, list(map(computed, part.args)), keywords), part)
        if isinstance(part, ast.Starred):
            return ast.copy_location(ast.Starred(computed(part.value), part.ctx), part)
        if isinstance(part, (ast.GeneratorExp, ast.Constant, ast.Lambda)):  # which compute nothing yet
            return part
        text = f"_zenith_head{number}_{len(before)}"
        before.append(assign(text, part, part))
        return _load(text, part)

    loop = ast.copy_location(ast.For(node.target, computed(node.iter), node.body, node.orelse), node)
    loop.begun = True  # type: ignore[attr-defined]
    return [*before, loop]


def _tested_inside(node: ast.While, ended: str) -> list[ast.stmt]:
    """A loop with its condition in the body: what it assigns must not happen once a flag has ended the loop.

    The ``else`` clause stays behind the loop, as its jumps are those of the loop around.
    """
    noted = [set_flag(ended, True, node)] if node.orelse else []
    branch = ast.copy_location(ast.If(node.test, node.body, [*noted, ast.copy_location(ast.Break(), node)]), node)
    loop = ast.copy_location(ast.While(ast.copy_location(ast.Constant(True), node), [branch], []), node)
    if not node.orelse:
        return [loop]
    return [set_flag(ended, False, node), loop, ast.copy_location(ast.If(_load(ended, node), node.orelse, []), node)]


def _returned(near: ast.AST) -> list[ast.stmt]:
    """That the function returns here, or is left by an exception."""
    leaving = ast.copy_location(ast.Expr(runtime_call("leaving", [], near)), near)
    return [leaving, set_flag(RETURNED, True, near)]


def _with_rest(statement: ast.stmt, rest: list[ast.stmt]) -> ast.If | None:
    """A branch of which one side always jumps, with what follows in its other side; None for anything else."""
    if not isinstance(statement, ast.If) or not rest:
        return None
    if always_jumps(statement.body):
        return ast.copy_location(ast.If(statement.test, statement.body, [*statement.orelse, *rest]), statement)
    if always_jumps(statement.orelse):
        return ast.copy_location(ast.If(statement.test, [*statement.body, *rest], statement.orelse), statement)
    return None


def _unset(text: str, near: ast.AST, how: str = "unset") -> ast.stmt:
    return assign(text, runtime_call(how, [ast.Constant(text)], near), near)


def _none_of(flags: set[str], near: ast.AST) -> ast.expr:
    names = [_load(flag, near) for flag in sorted(flags)]
    any_of = names[0] if len(names) == 1 else ast.copy_location(ast.BoolOp(ast.Or(), list(names)), near)
    return ast.copy_location(ast.UnaryOp(ast.Not(), any_of), near)
