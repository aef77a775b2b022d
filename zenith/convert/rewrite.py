"""Loops, branches and conditions of a function as calls of the runtime (:mod:`zenith.convert.runtime`).

``if c: y = x`` becomes::

    def then(): nonlocal y; y = x
    def get(): return (y,)
    def set(values): nonlocal y; (y,) = values
    _zenith.if_(c, then, None, ("y",), get, set)

so that the runtime can run it as Python does, or trace it once for each side with the values that it chooses for the
names. Loops likewise; ``and``, ``or``, ``not``, conditional expressions and chained comparisons take functions of their
later operands; what is called is looked up by ``_zenith.callee``, which converts the user's own functions. All keeps
its line and column. After Moldovan et al., "AutoGraph: Imperative-style Coding with Graph-based Performance" (2018).
"""

from __future__ import annotations

import ast
import itertools
import types
from collections.abc import Callable, Sequence

from zenith.convert import scopes
from zenith.convert.flow import exposed
from zenith.convert.syntax import (
    OfOneFunction,
    arguments,
    function,
    last_word,
    later,
    name,
    names_a_value,
    runtime_call,
    words,
)

# Python's functions that look at the frame that calls them.
_OF_FRAMES = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})
_ENDLESS = frozenset({"count", "repeat", "cycle"})  # of itertools; other things have methods of these names
_ITERATORS = _ENDLESS | frozenset({
    "range", "enumerate", "zip", "reversed", "product", "combinations", "ndindex", "ndenumerate", "map", "filter",
})  # fmt: skip
_CONSUMERS = frozenset({"sum", "min", "max", "list", "sorted"})  # Python's functions that read all of a generator
_OF_LOGGERS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log", "warn"})
_TRUTHS = frozenset({"any", "all"})  # those that stop where the answer is known
_READERS = _CONSUMERS | _TRUTHS
_BRACKETS = frozenset({"mgrid", "ogrid", "r_", "c_"})  # NumPy's, which make arrays of what is between the brackets


def rewrite(node: ast.FunctionDef | ast.Lambda, body: Sequence[ast.stmt], code: types.CodeType) -> list[ast.stmt]:
    """A function's statements with everything expressed by the runtime; ``body`` has no jumps inside of loops."""
    return _Rewriter(node, body, code).function(body)


class _Rewriter(OfOneFunction):
    """The transformation of one function."""

    def __init__(self, node: ast.FunctionDef | ast.Lambda, body: Sequence[ast.stmt], code: types.CodeType) -> None:
        given = node.args
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        self._parameters = {a.arg for a in every if a is not None}
        self._loads = scopes.loads(body)
        own = list(scopes.own_nodes(body))
        self._globals = {n for s in own if isinstance(s, ast.Global) for n in s.names}
        self._nonlocals = set(code.co_freevars)
        for flag in (flag for s in own for flag in getattr(s, "stops", ())):
            self._loads[flag] = self._loads.get(flag, 0) + 1  # in the condition that the loop is given
        outer = {n for s in own if isinstance(s, ast.Nonlocal) for n in s.names}  # which a function around may read
        self._shared = (scopes.assigned_inside(body) | outer) & {*code.co_cellvars, *code.co_freevars}
        positional = [*given.posonlyargs, *given.args]
        self._first = positional[0].arg if positional else None
        self._grown = scopes.grown(body)
        self._prints = False  # whether texts are for people, and not what is computed with
        self._numbers = itertools.count()
        self._started: dict[str, None] = {}  # the names that functions in place of statements assign

    def function(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        documented = bool(body) and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        head, rest = (list(body[:1]), body[1:]) if documented else ([], body)
        done = self._block(rest)
        fresh = [n for n in self._started if n not in self._parameters]
        unset = [
            ast.copy_location(
                ast.Assign([name(n, ast.Store())], runtime_call("unset", [ast.Constant(n)], body[0])), body[0]
            )
            for n in fresh
        ]
        return [ast.fix_missing_locations(s) for s in [*head, *unset, *done]]

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in statements:
            for text in sorted(self._globals.intersection(scopes.assigned([statement]))):
                call = runtime_call("global_", [ast.Constant(text)], statement)
                found.append(ast.copy_location(ast.Expr(call), statement))
            found += self.made_of(statement)
        return found

    # --- statements ---

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        changed = self._changed(node)
        shown = self._shared | exposed([node])  # what one side leaves in a name, the other must not read
        live = [n for n in changed if self._outside(n, node) or n in shown]
        number = next(self._numbers)
        test = self._condition(node.test)
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
        going = self._stopping(node)
        early = exposed([ast.copy_location(ast.Expr(going), node), *node.body])
        early |= exposed(node.body) & set(scopes.assigned([going]))  # what the test sets, a turn is given
        live = self._carried(node, early, changed)
        test = self._function(
            f"_zenith_test{number}", (), scopes.assigned([going]), [ast.Return(self._condition(going))], node
        )
        body = self._function(f"_zenith_turn{number}", (), changed, self._block(node.body), node)
        given: list[ast.expr] = [name(f"_zenith_test{number}"), name(f"_zenith_turn{number}")]
        extra = [words(sorted(scopes.rebound(node.body)))]
        return [test, body, *self._state("while_", number, given, live, node, extra)]

    @staticmethod
    def _going(node: ast.While | ast.For) -> list[ast.expr]:
        """For each flag that ends a loop, that it is not set."""
        flags = [ast.UnaryOp(ast.Not(), name(flag)) for flag in sorted(getattr(node, "stops", ()))]
        return [ast.fix_missing_locations(ast.copy_location(flag, node)) for flag in flags]

    def _stopping(self, node: ast.While) -> ast.expr:
        """The condition of a loop, with the flags that end it."""
        flags = self._going(node)
        if not flags:
            return node.test
        return ast.fix_missing_locations(ast.copy_location(ast.BoolOp(ast.And(), [*flags, node.test]), node.test))

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        number = next(self._numbers)
        changed = self._changed(node)
        targets = set(scopes.assigned([node.target]))
        stops = sorted(getattr(node, "stops", ()))
        # Within another loop its own header is read again.
        early = (exposed(node.body) - targets) | scopes.loads([node.iter]).keys()
        live = self._carried(node, early, changed)
        iterated = self._iterated(node.iter)
        store = ast.copy_location(ast.Assign([self.visit(node.target)], name("_zenith_item")), node.target)
        turn = self._function(
            f"_zenith_turn{number}", ("_zenith_item",), changed, [store, *self._block(node.body)], node
        )
        test: ast.expr = ast.Constant(None)
        made = [turn]
        if stops:
            flags = self._going(node)
            going = flags[0] if len(flags) == 1 else ast.BoolOp(ast.And(), flags)
            going = self._condition(ast.fix_missing_locations(ast.copy_location(going, node)))
            made.append(function(f"_zenith_test{number}", (), (), [ast.Return(going)], node))
            test = name(f"_zenith_test{number}")
        given: list[ast.expr] = [iterated, name(f"_zenith_turn{number}"), test]
        extra = [words(sorted(scopes.rebound(node.body) | targets)), words(sorted(targets))]
        return [*made, *self._state("for_", number, given, live, node, extra)]

    def _iterated(self, node: ast.expr) -> ast.expr:
        """What a loop goes over; of traced numbers and arrays, ``range`` and its like are the runtime's."""
        if not _is_iterator(node):
            found = self.visit(node)
            return found if isinstance(node, ast.Call) else runtime_call("named", [found], node)
        assert isinstance(node, ast.Call)
        node.args = [self.visit(a) if isinstance(a, ast.Starred) else self._iterated(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        node.func = runtime_call("iterator", [node.func], node.func)
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        """``raise`` where tracing comes to it; in loops and branches of the program it is the program's."""
        self.generic_visit(node)
        if node.exc is None:
            return node
        given = [later(error) for error in (node.exc, node.cause) if error is not None]
        made = ast.NamedExpr(name("_zenith_error", ast.Store()), runtime_call("raises", given, node))
        test = ast.Compare(made, [ast.IsNot()], [ast.Constant(None)])
        again = ast.copy_location(ast.Raise(name("_zenith_error"), None), node)
        return ast.fix_missing_locations(ast.copy_location(ast.If(test, [again], []), node))

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
        if not (
            isinstance(node.op, ast.Add) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.List)
        ):
            return node
        value = runtime_call("extended", [name(node.target.id), node.value], node)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """Without its annotation, which a name of the function around cannot have."""
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        made = ast.copy_location(ast.Assign([node.target], node.value), node)
        return self.visit_Assign(made)

    def _changed(self, node: ast.If | ast.For | ast.While) -> list[str]:
        """The names that the functions in place of a statement assign."""
        head = [node.target] if isinstance(node, ast.For) else [node.test]
        found = scopes.assigned([*head, *node.body, *node.orelse])
        if self._shared and any(isinstance(n, ast.Call) for n in scopes.own_nodes([node])):
            found += sorted(self._shared - set(found))  # functions inside of this one may assign them
        self._started.update(dict.fromkeys(n for n in found if n not in self._globals | self._nonlocals))
        return found

    def _function(
        self, called: str, parameters: Sequence[str], changed: Sequence[str], body: Sequence[ast.stmt], near: ast.AST
    ) -> ast.stmt:
        globals = [n for n in changed if n in self._globals]
        return function(called, parameters, [n for n in changed if n not in globals], body, near, globals)

    def _carried(self, node: ast.stmt, early: set[str], changed: Sequence[str]) -> list[str]:
        """The names whose values go from turn to turn, which a turn reads ``early``, or are read after a loop."""
        return [n for n in changed if n in early or n in self._shared or self._outside(n, node)]

    def _outside(self, text: str, node: ast.stmt) -> bool:
        """Whether a name is read anywhere but in a statement."""
        return self._loads.get(text, 0) > scopes.loads([node]).get(text, 0)

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

    # --- expressions ---

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return self._connected(node, ("and_", "or_"), self.visit)

    def _condition(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth counts."""
        if isinstance(node, ast.BoolOp):
            return self._connected(node, ("all_of", "any_of"), self._condition)
        return self.visit(node)

    def _connected(self, node: ast.BoolOp, called: tuple[str, str], visit: Callable[[ast.expr], ast.expr]) -> ast.expr:
        if any(map(names_a_value, node.values[1:])):
            return self.generic_visit(node)  # type: ignore[return-value]
        first, *rest = map(visit, node.values)
        return runtime_call(called[isinstance(node.op, ast.Or)], [first, *map(later, rest)], node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """``[0.0] * n``, a list whose items the program may set, and ``"text %s" % values``."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Mult):
            node.left, node.right = _as_item(node.left), _as_item(node.right)
        elif isinstance(node.op, ast.Mod) and _is_text(node.left) and not self._prints:
            node.right = runtime_call("formatted", [node.right], node)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return runtime_call("not_", [self._condition(node.operand)], node)
        node.operand = self.visit(node.operand)
        return node

    def visit_List(self, node: ast.List) -> ast.expr:
        self.generic_visit(node)
        return node if node.elts or not isinstance(node.ctx, ast.Load) else runtime_call("list_", [], node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        """``[f(x) for x in y]`` as a loop that appends to a list."""
        (generator, *others) = node.generators
        plain = others or generator.is_async or names_a_value(node) or len(generator.ifs) > 1
        if plain or not _is_target(generator.target) or _defers(node):
            return self.generic_visit(node)  # type: ignore[return-value]
        make = _of_item(generator.target, self.visit(_as_item(node.elt)))
        keep = [_of_item(generator.target, self._condition(test)) for test in generator.ifs] or [ast.Constant(None)]
        return runtime_call("listed", [self._iterated(generator.iter), make, *keep], node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if names_a_value(node.body) or names_a_value(node.orelse):
            return self.generic_visit(node)  # type: ignore[return-value]
        sides = [later(self.visit(side)) for side in (node.body, node.orelse)]
        return runtime_call("choose", [self._condition(node.test), *sides], node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1 and any(map(names_a_value, node.comparators)):
            return self.generic_visit(node)  # type: ignore[return-value]
        first, *rest = self._compared(node)
        if len(rest) == 1:
            return self._single(node, first, rest[0])
        pairs: list[ast.expr] = []
        for operator, operand in zip(node.ops, rest, strict=True):
            sides = name("_zenith_left"), name("_zenith_right")
            step = self._single(ast.copy_location(ast.Compare(sides[0], [operator], [sides[1]]), node), *sides)
            pairs += [ast.Lambda(arguments("_zenith_left", "_zenith_right"), step), later(operand)]
        return runtime_call("compare", [first, *pairs], node)

    @staticmethod
    def _single(node: ast.Compare, first: ast.expr, second: ast.expr) -> ast.expr:
        """One comparison; by ``in`` and ``is`` the runtime's."""
        (operator,), operands = node.ops, [first, second]
        if isinstance(operator, (ast.In, ast.NotIn)):
            called = "contains"
        elif not isinstance(operator, (ast.Is, ast.IsNot)):
            if any(isinstance(side, ast.Constant) for side in (first, second)):
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

    def _compared(self, node: ast.Compare) -> list[ast.expr]:
        """The operands of a comparison; those whose identity is asked for have to be known."""
        operands = [self.visit(v) for v in (node.left, *node.comparators)]
        for k, operator in enumerate(node.ops):
            if isinstance(operator, (ast.Is, ast.IsNot)):
                pair = operands[k : k + 2]
                if any(isinstance(o, ast.Constant) and (o.value is None or type(o.value) is bool) for o in pair):
                    continue  # which ask themselves
                called = "read" if any(isinstance(operand, ast.Constant) for operand in pair) else "identity"
                operands[k : k + 2] = [_read(operand, called) for operand in pair]
        return operands

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        self.generic_visit(node)
        of_classes = any(isinstance(inner, ast.MatchClass) for inner in ast.walk(node))
        node.subject = _read(node.subject, "known" if of_classes else "read")
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        self.generic_visit(node)
        if not self._prints:
            node.value = runtime_call("formatted", [node.value], node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        before = self._prints
        self._prints = _is_printer(node.func) or (before and _makes_text(node.func))
        try:
            return self._called(node)
        finally:
            self._prints = before

    def _called(self, node: ast.Call) -> ast.expr:
        of_frame = isinstance(node.func, ast.Name) and node.func.id in _OF_FRAMES
        if isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            node.args = list(map(_as_item, node.args))
        if isinstance(node.func, ast.Name) and node.func.id == "next" and (found := self._next_of(node)):
            return found
        if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
            node.args = [self._generator(node.args[0], last_word(node.func))]
        reads = isinstance(node.func, ast.Name) and node.func.id in _READERS
        node.args = [self._iterated(a) if reads and _is_iterator(a) else self.visit(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        if of_frame and not node.args and self._first and isinstance(node.func, ast.Name) and node.func.id == "super":
            node.args = [ast.copy_location(name(n), node) for n in ("__class__", self._first)]
        if not of_frame and not (self._prints and _makes_text(node.func)):
            node.func = runtime_call("callee", [self.visit(node.func)], node.func)
        return node

    def _next_of(self, call: ast.Call) -> ast.expr | None:
        """``next(f(x) for x in y if g(x))`` as a loop that ends at the first; None for what is more."""
        if len(call.args) not in (1, 2) or not isinstance(call.args[0], ast.GeneratorExp) or names_a_value(call):
            return None
        node, default = call.args[0], call.args[1:]
        (generator, *others) = node.generators
        if others or generator.is_async or len(generator.ifs) > 1 or not _is_target(generator.target):
            return None
        (test,) = generator.ifs or [ast.copy_location(ast.Constant(True), node)]
        keep = _of_item(generator.target, self._condition(test))
        make = _of_item(generator.target, self.visit(node.elt))
        given = [call.func, self._iterated(generator.iter), make, keep, *map(self.visit, default)]
        return runtime_call("next_of", given, call)

    def _generator(self, node: ast.GeneratorExp, called: str) -> ast.expr:
        """A generator that one of Python's functions is given: a list where it reads all, truths where it need not."""
        if called in _CONSUMERS:
            return ast.copy_location(ast.ListComp(node.elt, node.generators), node)
        (generator, *others) = node.generators
        plain = others or generator.is_async or names_a_value(node) or not _is_target(generator.target)
        if called not in _TRUTHS or plain:
            return node
        tests = generator.ifs if called == "any" else [ast.UnaryOp(ast.Not(), test) for test in generator.ifs]
        connective = ast.Or() if called == "all" else ast.And()
        truth = ast.BoolOp(connective, [*tests, node.elt]) if tests else node.elt
        truth = ast.fix_missing_locations(ast.copy_location(truth, node.elt))
        make = _of_item(generator.target, self._condition(truth))
        return runtime_call("lazily", [self._iterated(generator.iter), make], node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return node


def _as_item(node: ast.expr) -> ast.expr:
    """An item of a list: another list between brackets is one that the program may stack, too."""
    return runtime_call("list_", [node], node) if isinstance(node, ast.List) and node.elts else node


def _has_slice(index: ast.expr) -> bool:
    """Whether an index has slices or stars, which are no expressions."""
    return isinstance(index, ast.Tuple) and any(isinstance(i, (ast.Slice, ast.Starred)) for i in index.elts)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_printer(function: ast.expr) -> bool:
    """Whether a function is ``print``, or a method of what is called a logger: its texts are for people."""
    if isinstance(function, ast.Attribute):
        owner = last_word(function.value).lower()
        return function.attr in _OF_LOGGERS and ("log" in owner or owner == "warnings")
    return isinstance(function, ast.Name) and function.id == "print"


def _makes_text(function: ast.expr) -> bool:
    """Whether a function is ``str``, ``repr`` or ``map``, or a method of a text."""
    if isinstance(function, ast.Attribute):
        return _is_text(function.value)
    return isinstance(function, ast.Name) and function.id in ("str", "repr", "format", "map")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is bool


def _is_iterator(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call) or last_word(node.func) not in _ITERATORS:
        return False
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return last_word(node.func) not in _ENDLESS or owner is None or last_word(owner) == "itertools"


def _is_target(target: ast.expr) -> bool:
    """Whether a name, or names in brackets, are assigned."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return all(map(_is_target, target.elts))
    return isinstance(target, ast.Name)


def _defers(node: ast.expr) -> bool:
    """Whether an expression makes what reads names later: a function, or a generator that is not given to one."""
    given = [arg for call in ast.walk(node) if isinstance(call, ast.Call) for arg in call.args]
    makes = (n for n in ast.walk(node) if isinstance(n, (ast.Lambda, ast.GeneratorExp)))
    return any(isinstance(n, ast.Lambda) or n not in given for n in makes)


def _of_item(target: ast.expr, value: ast.expr) -> ast.expr:
    """The function of what is assigned to a target that gives an expression."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Lambda(arguments(target.id), value), value)
    assert isinstance(target, (ast.Tuple, ast.List))
    given = [t.id if isinstance(t, ast.Name) else "" for t in target.elts]
    names = [n if n and n not in given[k + 1 :] else f"_zenith_item{k}" for k, n in enumerate(given)]
    for inner, own in zip(target.elts, names, strict=True):
        if not isinstance(inner, ast.Name):
            value = ast.copy_location(ast.Call(_of_item(inner, value), [name(own)], []), value)
    unpacked = ast.copy_location(ast.Lambda(arguments(*names), value), value)
    item = ast.Starred(name("_zenith_item"), ast.Load())
    call = ast.copy_location(ast.Call(unpacked, [item], []), value)
    return ast.fix_missing_locations(ast.copy_location(ast.Lambda(arguments("_zenith_item"), call), value))


def _read(operand: ast.expr, called: str = "read") -> ast.expr:
    """An operand that has to be set in every case."""
    return operand if isinstance(operand, ast.Constant) else runtime_call(called, [operand], operand)
