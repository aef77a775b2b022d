"""``match`` statements of literals, classes, names and alternatives as branches, which values may decide."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence

from zenith.convert.syntax import OfOneFunction, assign, name, placed


def lower_matches(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function with such ``match`` statements as ``if``; others need a subject that is known."""
    lowering = _Matches()
    return [ast.fix_missing_locations(s) for statement in body for s in lowering.made_of(statement)]


class _Matches(OfOneFunction):
    def __init__(self) -> None:
        self._numbers = itertools.count()

    def visit_Match(self, node: ast.Match) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if not all(_is_simple(case) for case in node.cases):
            return node
        subject = f"_zenith_subject{next(self._numbers)}"
        return [assign(subject, node.subject, node.subject), *_branches(subject, node.cases)]


def _branches(subject: str, cases: Sequence[ast.match_case]) -> list[ast.stmt]:
    """The first of some cases, and the others where it is not the one."""
    if not cases:
        return []
    case, pattern = cases[0], cases[0].pattern
    start: list[ast.stmt] = []
    if isinstance(pattern, ast.MatchAs) and pattern.name is not None:
        start = [assign(pattern.name, name(subject), pattern)]
        pattern = pattern.pattern or ast.copy_location(ast.MatchAs(), pattern)
    tests = [*([] if _is_always(pattern) else [_test(subject, pattern)]), *([] if case.guard is None else [case.guard])]
    if not tests:
        return [*start, *case.body]
    test = tests[0] if len(tests) == 1 else ast.copy_location(ast.BoolOp(ast.And(), tests), case.pattern)
    body = case.body
    if case.guard is None:  # else the guard may read the name
        start, body = [], [*start, *body]
    return [*start, ast.copy_location(ast.If(test, body, _branches(subject, cases[1:])), case.pattern)]


def _test(subject: str, pattern: ast.pattern) -> ast.expr:
    """Whether the subject is what a pattern says."""
    if isinstance(pattern, ast.MatchOr):
        return ast.copy_location(ast.BoolOp(ast.Or(), [_test(subject, p) for p in pattern.patterns]), pattern)
    if isinstance(pattern, ast.MatchSingleton):
        operator, value = ast.Is(), ast.copy_location(ast.Constant(pattern.value), pattern)
        return ast.copy_location(ast.Compare(name(subject), [operator], [value]), pattern)
    if isinstance(pattern, ast.MatchClass):
        asked = ast.Call(name("isinstance"), [name(subject), pattern.cls], [])
        return placed(asked, pattern)
    assert isinstance(pattern, ast.MatchValue)
    return ast.copy_location(ast.Compare(name(subject), [ast.Eq()], [pattern.value]), pattern)


def _is_always(pattern: ast.pattern) -> bool:
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


def _is_simple(case: ast.match_case) -> bool:
    """Whether a case asks for values alone; a name that it gives to some of them has no further condition."""
    pattern = case.pattern
    if isinstance(pattern, ast.MatchAs):
        return pattern.pattern is None or (case.guard is None and _asks_for_values(pattern.pattern))
    return _asks_for_values(pattern)


def _asks_for_values(pattern: ast.pattern) -> bool:
    if isinstance(pattern, ast.MatchOr):
        return all(map(_asks_for_values, pattern.patterns))
    if isinstance(pattern, ast.MatchClass):
        return not (pattern.patterns or pattern.kwd_patterns)
    return isinstance(pattern, ast.MatchValue | ast.MatchSingleton)
