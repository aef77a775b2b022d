"""Loops and branches of a function as calls of the runtime (:mod:`zenith.convert.runtime`).

``if c: y = x`` becomes::

    def then(): nonlocal y; y = x
    def get(): return (y,)
    def set(values): nonlocal y; (y,) = values
    _zenith.if_(c, then, None, ("y",), get, set)

so that the runtime can run it as Python does, or trace it once for each side with the values that it chooses for the
names. Loops likewise; expressions are transformed by :mod:`zenith.convert.rewrite_calls` and
:mod:`zenith.convert.rewrite_expressions`. All keeps its line and column. After Moldovan et al., "AutoGraph:
Imperative-style Coding with Graph-based Performance" (2018).
"""

from __future__ import annotations

import ast
import itertools
import types
from collections.abc import Sequence

from zenith.convert import scopes
from zenith.convert.flow import exposed
from zenith.convert.rewrite_calls import CallRewriter
from zenith.convert.rewrite_expressions import checked
from zenith.convert.syntax import assign, function, later, name, placed, runtime_call, words


def rewrite(node: ast.FunctionDef | ast.Lambda, body: Sequence[ast.stmt], code: types.CodeType) -> list[ast.stmt]:
    """A function's statements with everything expressed by the runtime; ``body`` has no jumps inside of loops."""
    return _Rewriter(node, body, code).function(body)


class _Rewriter(CallRewriter):
    """The transformation of one function."""

    def __init__(self, node: ast.FunctionDef | ast.Lambda, body: Sequence[ast.stmt], code: types.CodeType) -> None:
        self._parameters = scopes.parameters(node.args)
        positional = [*node.args.posonlyargs, *node.args.args]
        self.first = positional[0].arg if positional else None
        own = list(scopes.own_nodes(body))
        self._globals = {n for s in own if isinstance(s, ast.Global) for n in s.names}
        self._nonlocals = set(code.co_freevars)
        outer = {n for s in own if isinstance(s, ast.Nonlocal) for n in s.names}  # which a function around may read
        self._shared = (scopes.assigned_inside(body) | outer) & {*code.co_cellvars, *code.co_freevars}
        self._grown = scopes.grown(body)
        self._loads = scopes.loads(body)
        for flag in (flag for s in own for flag in getattr(s, "stops", ())):
            self._loads[flag] = self._loads.get(flag, 0) + 1  # in the condition that the loop is given
        self._numbers = itertools.count()
        self._started: dict[str, None] = {}  # the names that functions in place of statements assign

    def function(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The statements of the function, behind ones that unset the names which others assign."""
        documented = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        head, rest = (list(body[:1]), body[1:]) if documented else ([], body)
        done = self._block(rest)
        fresh = [n for n in self._started if n not in self._parameters]
        unset = [assign(n, runtime_call("unset", [ast.Constant(n)], body[0]), body[0]) for n in fresh]
        return [ast.fix_missing_locations(s) for s in [*head, *unset, *done]]

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in statements:
            for text in sorted(self._globals.intersection(scopes.assigned([statement]))):
                call = runtime_call("global_", [ast.Constant(text)], statement)
                found.append(ast.copy_location(ast.Expr(call), statement))
            found += self.made_of(statement)
        return found

    # --- branches and loops ---

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        changed = self._changed(node)
        shown = self._shared | exposed([node]) | self._read_outside(node)  # what the other side must not read, too
        live = [n for n in changed if n in shown]
        number = next(self._numbers)
        test = self.condition(node.test)
        sides: list[ast.expr] = []
        made: list[ast.stmt] = []
        for what, body in (("then", node.body), ("else", node.orelse)):
            if body:
                called = f"_zenith_{what}{number}"
                made.append(self._function(called, (), changed, self._block(body), node))
                sides.append(name(called))
            else:
                sides.append(ast.Constant(None))
        return [*made, *self._state("if_", number, [test, *sides], live, node)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        number = next(self._numbers)
        changed = self._changed(node)
        going = _stopping(node)
        early = exposed([ast.copy_location(ast.Expr(going), node), *node.body])
        early |= exposed(node.body) & set(scopes.assigned([going]))  # what the test sets, a turn is given
        live = self._carried(node, early, changed)
        answer = ast.Return(self.condition(going))
        test = self._function(f"_zenith_test{number}", (), scopes.assigned([going]), [answer], node)
        turn = self._function(f"_zenith_turn{number}", (), changed, self._block(node.body), node)
        given: list[ast.expr] = [name(f"_zenith_test{number}"), name(f"_zenith_turn{number}")]
        extra = [words(sorted(scopes.rebound(node.body)))]
        return [test, turn, *self._state("while_", number, given, live, node, extra)]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        number = next(self._numbers)
        changed = self._changed(node)
        targets = set(scopes.assigned([node.target]))
        # Within another loop its own header is read again.
        early = (exposed(node.body) - targets) | scopes.loads([node.iter]).keys()
        live = self._carried(node, early, changed)
        iterated = self.iterated(node.iter)
        store = ast.copy_location(ast.Assign([self.visit(node.target)], name("_zenith_item")), node.target)
        body = [store, *self._block(node.body)]
        made = [self._function(f"_zenith_turn{number}", ("_zenith_item",), changed, body, node)]
        test: ast.expr = ast.Constant(None)
        if flags := _going(node):
            going = flags[0] if len(flags) == 1 else ast.BoolOp(ast.And(), flags)
            answer = ast.Return(self.condition(placed(going, node)))
            made.append(function(f"_zenith_test{number}", (), (), [answer], node))
            test = name(f"_zenith_test{number}")
        given: list[ast.expr] = [iterated, name(f"_zenith_turn{number}"), test]
        extra = [words(sorted(scopes.rebound(node.body) | targets)), words(sorted(targets))]
        return [*made, *self._state("for_", number, given, live, node, extra)]

    def _changed(self, node: ast.If | ast.For | ast.While) -> list[str]:
        """The names that the functions in place of a statement assign."""
        head = [node.target] if isinstance(node, ast.For) else [node.test]
        found = scopes.assigned([*head, *node.body, *node.orelse])
        if self._shared and any(isinstance(n, ast.Call) for n in scopes.own_nodes([node])):
            found += sorted(self._shared - set(found))  # functions inside of this one may assign them
        self._started.update(dict.fromkeys(n for n in found if n not in self._globals | self._nonlocals))
        return found

    def _carried(self, node: ast.stmt, early: set[str], changed: Sequence[str]) -> list[str]:
        """The names whose values go from turn to turn, which a turn reads ``early``, or are read after a loop."""
        carried = early | self._shared | self._read_outside(node)
        return [n for n in changed if n in carried]

    def _read_outside(self, node: ast.stmt) -> set[str]:
        """The names that are read anywhere but in a statement."""
        inside = scopes.loads([node])
        return {text for text, count in self._loads.items() if count > inside.get(text, 0)}

    def _function(
        self, called: str, parameters: Sequence[str], changed: Sequence[str], body: Sequence[ast.stmt], near: ast.AST
    ) -> ast.stmt:
        """The function in place of statements, which assigns the names that they change."""
        globals = [n for n in changed if n in self._globals]
        return function(called, parameters, [n for n in changed if n not in globals], body, near, globals)

    def _state(
        self,
        called: str,
        number: int,
        given: list[ast.expr],
        names: list[str],
        near: ast.stmt,
        extra: Sequence[ast.expr] = (),
    ) -> list[ast.stmt]:
        """The functions that give and set the values of names, and the call of the runtime."""
        values: list[ast.expr] = [name(n) for n in names]
        get = function(f"_zenith_get{number}", (), (), [ast.Return(ast.Tuple(values, ast.Load()))], near)
        stores: list[ast.expr] = [name(n, ast.Store()) for n in names]
        store = ast.Assign([ast.Tuple(stores, ast.Store())], name("_zenith_values"))
        set_ = self._function(f"_zenith_set{number}", ("_zenith_values",), names, [store] if names else [], near)
        args = [*given, words(names), name(f"_zenith_get{number}"), name(f"_zenith_set{number}"), *extra]
        return [get, set_, ast.copy_location(ast.Expr(runtime_call(called, args, near)), near)]

    # --- other statements ---

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """``raise`` where tracing comes to it; in loops and branches of the program it is the program's."""
        self.generic_visit(node)
        if node.exc is None:
            return node
        given = [later(error) for error in (node.exc, node.cause) if error is not None]
        made = ast.NamedExpr(name("_zenith_error", ast.Store()), runtime_call("raises", given, node))
        test = ast.Compare(made, [ast.IsNot()], [ast.Constant(None)])
        again = ast.copy_location(ast.Raise(name("_zenith_error"), None), node)
        return placed(ast.If(test, [again], []), node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        for target in node.targets:
            node.value = self._growing(target, node.value)
        return node

    def _growing(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """What is assigned, with lists that may grow in place of lists that something appends to."""
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, ast.Tuple):
            if len(target.elts) == len(value.elts):
                value.elts = [self._growing(t, v) for t, v in zip(target.elts, value.elts, strict=True)]
        elif isinstance(target, ast.Name) and isinstance(value, ast.List) and value.elts and target.id in self._grown:
            return runtime_call("list_", [value], value)
        return value

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """``items += [x]``, which appends to lists."""
        self.generic_visit(node)
        if not (isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name)):
            return node
        if not isinstance(node.value, ast.List):
            return node
        value = runtime_call("extended", [name(node.target.id), node.value], node)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """Without its annotation, which a name of the function around cannot have."""
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        made = ast.copy_location(ast.Assign([node.target], node.value), node)
        return self.visit_Assign(made)

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        of_classes = any(isinstance(inner, ast.MatchClass) for inner in ast.walk(node))
        node.subject = checked(node.subject, "known" if of_classes else "read")
        return node


def _going(node: ast.While | ast.For) -> list[ast.expr]:
    """For each flag that ends a loop, that it is not set."""
    return [placed(ast.UnaryOp(ast.Not(), name(flag)), node) for flag in sorted(getattr(node, "stops", ()))]


def _stopping(node: ast.While) -> ast.expr:
    """The condition of a loop, with the flags that end it."""
    flags = _going(node)
    return placed(ast.BoolOp(ast.And(), [*flags, node.test]), node.test) if flags else node.test
