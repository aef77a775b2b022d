"""Calls, comprehensions and generators of a function as calls of the runtime.

What is called is looked up by ``_zenith.callee``, which converts the user's own functions, and what a loop or one of
Python's functions goes over by ``_zenith.iterator``. A comprehension over one sequence is a loop that appends to a
list; a generator that ``any``, ``all`` or ``next`` is given is computed item by item.
"""

from __future__ import annotations

import ast

from zenith.convert.rewrite_expressions import ExpressionRewriter, as_item, is_text
from zenith.convert.syntax import arguments, is_iterator, last_word, name, names_a_value, placed, runtime_call

# Python's functions that look at the frame that calls them.
_OF_FRAMES = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})
_CONSUMERS = frozenset({"sum", "min", "max", "list", "sorted"})  # Python's functions that read all of a generator
_TRUTHS = frozenset({"any", "all"})  # those that stop where the answer is known
_READERS = _CONSUMERS | _TRUTHS
_OF_LOGGERS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log", "warn"})


class CallRewriter(ExpressionRewriter):
    """The transformation of expressions; ``first`` is the first parameter of the function, which ``super()`` takes."""

    first: str | None = None

    def visit_Call(self, node: ast.Call) -> ast.expr:
        before = self.prints
        self.prints = _is_printer(node.func) or (before and _makes_text(node.func))
        try:
            return self._called(node)
        finally:
            self.prints = before

    def _called(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            node.args = list(map(as_item, node.args))
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if function == "next" and (found := self._next_of(node)):
            return found
        if len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
            node.args = [self._generator(node.args[0], last_word(node.func))]
        node.args = [self.iterated(a) if function in _READERS and is_iterator(a) else self.visit(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        if function == "super" and not node.args and self.first:
            node.args = [ast.copy_location(name(n), node) for n in ("__class__", self.first)]
        if function not in _OF_FRAMES and not (self.prints and _makes_text(node.func)):
            node.func = runtime_call("callee", [self.visit(node.func)], node.func)
        return node

    def iterated(self, node: ast.expr) -> ast.expr:
        """What a loop goes over; of traced numbers and arrays, ``range`` and its like are the runtime's."""
        if not is_iterator(node):
            found = self.visit(node)
            return found if isinstance(node, ast.Call) else runtime_call("named", [found], node)
        assert isinstance(node, ast.Call)
        node.args = [self.visit(a) if isinstance(a, ast.Starred) else self.iterated(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        node.func = runtime_call("iterator", [node.func], node.func)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        """``[f(x) for x in y]`` as a loop that appends to a list."""
        generator = _only_generator(node)
        if generator is None or len(generator.ifs) > 1 or _defers(node):
            return self.descend(node)
        make = _function_of_item(generator.target, self.visit(as_item(node.elt)))
        keep = [_function_of_item(generator.target, self.condition(test)) for test in generator.ifs]
        return runtime_call("listed", [self.iterated(generator.iter), make, *(keep or [ast.Constant(None)])], node)

    def _next_of(self, call: ast.Call) -> ast.expr | None:
        """``next(f(x) for x in y if g(x))`` as a loop that ends at the first; None for what is more."""
        if len(call.args) not in (1, 2) or not isinstance(call.args[0], ast.GeneratorExp) or names_a_value(call):
            return None
        node, default = call.args[0], call.args[1:]
        generator = _only_generator(node)
        if generator is None or len(generator.ifs) > 1:
            return None
        (test,) = generator.ifs or [ast.copy_location(ast.Constant(True), node)]
        keep = _function_of_item(generator.target, self.condition(test))
        make = _function_of_item(generator.target, self.visit(node.elt))
        given = [call.func, self.iterated(generator.iter), make, keep, *map(self.visit, default)]
        return runtime_call("next_of", given, call)

    def _generator(self, node: ast.GeneratorExp, called: str) -> ast.expr:
        """A generator that one of Python's functions is given: a list where it reads all, truths where it need not."""
        if called in _CONSUMERS:
            return ast.copy_location(ast.ListComp(node.elt, node.generators), node)
        generator = _only_generator(node)
        if called not in _TRUTHS or generator is None:
            return node
        tests = generator.ifs if called == "any" else [ast.UnaryOp(ast.Not(), test) for test in generator.ifs]
        connective = ast.Or() if called == "all" else ast.And()
        truth = placed(ast.BoolOp(connective, [*tests, node.elt]) if tests else node.elt, node.elt)
        make = _function_of_item(generator.target, self.condition(truth))
        return runtime_call("lazily", [self.iterated(generator.iter), make], node)


def _only_generator(node: ast.ListComp | ast.GeneratorExp) -> ast.comprehension | None:
    """The one ``for`` of a comprehension whose expressions can be functions of the item; None for others."""
    (generator, *others) = node.generators
    if others or generator.is_async or names_a_value(node) or not _is_target(generator.target):
        return None
    return generator


def _is_printer(function: ast.expr) -> bool:
    """Whether a function is ``print``, or a method of what is called a logger: its texts are for people."""
    if isinstance(function, ast.Attribute):
        owner = last_word(function.value).lower()
        return function.attr in _OF_LOGGERS and ("log" in owner or owner == "warnings")
    return isinstance(function, ast.Name) and function.id == "print"


def _makes_text(function: ast.expr) -> bool:
    """Whether a function is ``str``, ``repr`` or ``map``, or a method of a text."""
    if isinstance(function, ast.Attribute):
        return is_text(function.value)
    return isinstance(function, ast.Name) and function.id in ("str", "repr", "format", "map")


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


def _function_of_item(target: ast.expr, value: ast.expr) -> ast.expr:
    """The function that gives an expression of what is assigned to a target."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Lambda(arguments(target.id), value), value)
    assert isinstance(target, (ast.Tuple, ast.List))
    given = [t.id if isinstance(t, ast.Name) else "" for t in target.elts]
    # Of equal names the last one counts, as in an assignment.
    names = [n if n and n not in given[k + 1 :] else f"_zenith_item{k}" for k, n in enumerate(given)]
    for inner, own in zip(target.elts, names, strict=True):
        if not isinstance(inner, ast.Name):
            value = ast.copy_location(ast.Call(_function_of_item(inner, value), [name(own)], []), value)
    unpacked = ast.copy_location(ast.Lambda(arguments(*names), value), value)
    item = ast.Starred(name("_zenith_item"), ast.Load())
    call = ast.copy_location(ast.Call(unpacked, [item], []), value)
    return placed(ast.Lambda(arguments("_zenith_item"), call), value)
