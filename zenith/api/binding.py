"""Binding: from the arrays of a call to the values of the program's sizes, by one small generated function.

The function reads the shapes, checks the program's guards in the order in which tracing met them, and returns the
sizes. A false assumption returns None (another specialisation may fit); a false requirement raises ShapeError with the
reason and line that tracing recorded. Sizes that Python computes (:mod:`zenith.ir.computed_sizes`) are computed there.
It is plain Python, printed by ``explain()``::

    def bind(leaves):
        x0, x1 = leaves[0].shape
        w0, w1 = leaves[1].shape
        if not (w0 == x1): raise broken(0, locals())  # require, model.py:12: ...
        if not (x0 != 1): return None  # assume, model.py:14
        return {"x0": x0, "x1": x1, "w1": w1}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zenith import errors
from zenith.backends.codec import record
from zenith.cached import cached_property
from zenith.errors import SourceLine, ZenithError
from zenith.ir.computed_sizes import NAMES, NO_NUMBER, evaluate, with_computed
from zenith.ir.guards import Guard
from zenith.trace import InputSpec
from zenith.tree import unique

Bind = Callable[[Sequence[object]], "dict[str, int] | None"]


@record
@dataclass(frozen=True)
class SourceGuard:
    """A guard as Python source: an assumption or (``required``) a requirement, with why and where."""

    source: str
    required: bool
    reason: str = ""
    line: SourceLine | None = None
    error: str = "ShapeError"

    @classmethod
    def of(cls, guard: Guard) -> SourceGuard:
        """The condition that a guard states."""
        source = f"{guard.left} {guard.relation} {guard.right}"
        return cls(source, guard.kind == "require", guard.reason, guard.line, guard.error.__name__)

    @property
    def raises(self) -> type[ZenithError]:
        """The class of the error of a call that does not meet the requirement."""
        found: type[ZenithError] = getattr(errors, self.error)
        return found

    def __str__(self) -> str:
        verb = "required" if self.required else "assumed"
        location = f" at {self.line}" if self.line else ""
        return f"{self.source} is {verb}{location}" + (f" ({self.reason})" if self.reason else "")

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the condition is true; a division by zero, or another undefined number, makes it false."""
        try:
            return bool(evaluate(self.source, sizes))
        except NO_NUMBER:
            return False


@record
@dataclass(frozen=True)
class Binding:
    """What the generated function does: it reads ``shapes``, a name for each axis, and ``numbers``, integers that are
    sizes, computes ``definitions`` of sizes by name, checks ``conditions`` and returns the sizes ``symbols``.
    """

    shapes: tuple[tuple[int, tuple[str, ...]], ...]
    conditions: tuple[SourceGuard, ...]
    symbols: tuple[str, ...]
    definitions: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[int, str], ...] = ()

    @cached_property
    def source(self) -> str:
        """The function as Python."""
        lines = ["def bind(leaves):"]
        for position, names in self.shapes:
            lines.append(f"    {', '.join(names)}{',' * (len(names) == 1)} = leaves[{position}].shape")
        lines += [f"    {name} = int(leaves[{position}])" for position, name in self.numbers]
        lines += [line for name, source in self.definitions for line in _computed(name, source)]
        lines += [_check(number, condition) for number, condition in enumerate(self.conditions)]
        lines.append("    return {" + ", ".join(f'"{s}": {s}' for s in self.symbols) + "}")
        if any("//" in c.source or "%" in c.source for c in self.conditions):
            lines = _catch_division(lines)
        return "\n".join(lines)

    @cached_property
    def function(self) -> Bind:
        """The function: sizes of arrays by name, None where they do not satisfy an assumption."""
        scope: dict[str, Any] = {"broken": lambda i, sizes: broken(self.conditions[i], sizes), "math": NAMES["math"]}
        exec(compile(self.source, "<bind>", "exec"), scope)
        function: Bind = scope["bind"]
        return function

    def sizes(self, leaves: Sequence[object]) -> dict[str, int]:
        """Every size by name, whether the conditions hold or not."""
        return with_computed(self._read(leaves), dict(self.definitions))

    def first_false(self, leaves: Sequence[object]) -> SourceGuard | None:
        """The first condition that these arrays do not satisfy; None when they satisfy all."""
        sizes = self._read(leaves)
        for name, source in self.definitions:
            is_size = SourceGuard(f"{source} >= 0", False, "a size is computed so")
            if not is_size.holds(sizes):
                return is_size
            sizes[name] = evaluate(source, sizes)
        return next((c for c in self.conditions if not c.holds(sizes)), None)

    def _read(self, leaves: Sequence[Any]) -> dict[str, int]:
        found = {n: s for i, names in self.shapes for n, s in zip(names, leaves[i].shape, strict=True)}
        return found | {name: int(leaves[position]) for position, name in self.numbers}


def make_binding(
    specs: Sequence[InputSpec],
    guards: Sequence[SourceGuard],
    symbols: Sequence[str],
    definitions: Sequence[tuple[str, str]] = (),
) -> Binding:
    """The binding of a program with these inputs; ``symbols`` are the sizes that it needs.

    ``definitions`` are those of the sizes that Python computes; the binding computes the ones that are needed.
    """
    shapes, declared = _read_shapes(specs)
    first: dict[str, SourceGuard] = {}
    for condition in (*declared, *guards):
        first.setdefault(condition.source, condition)
    needed = set(symbols) | {name for source in first for name in _words(source)}
    computed = []
    for name, source in reversed(definitions):
        if name in needed:
            computed.append((name, source))
            needed.update(_words(source))
    numbers = tuple((i, str(spec.size)) for i, spec in enumerate(specs) if spec.size is not None)
    return Binding(tuple(shapes), tuple(first.values()), tuple(symbols), tuple(reversed(computed)), numbers)


def _read_shapes(specs: Sequence[InputSpec]) -> tuple[list[tuple[int, tuple[str, ...]]], list[SourceGuard]]:
    """Names for the sizes of each input, and conditions for those that are fixed, formulas or repeated."""
    shapes, conditions = [], []
    taken = {symbol for spec in specs for size in spec.sizes for symbol in size.symbols()}
    seen = set[str]()
    for position, spec in enumerate(specs):
        names = []
        for axis, size in enumerate(spec.sizes):
            name = str(size)
            if not name.isidentifier() or name in seen:
                (name,) = unique([f"{spec.name}{axis}"], taken)
                word = "fixed to" if size.static is not None else "declared as"
                reason = f"axis {axis} of {spec.name} is {word} {size}"
                conditions.append(SourceGuard(f"{name} == {size}", size.static is None, reason))
                taken.add(name)
            seen.add(name)
            names.append(name)
        if names:
            shapes.append((position, tuple(names)))
        if spec.size is not None:  # a size is at least 0; a negative number is its own program's
            relation = ">= 0" if spec.number >= 0 else f"== {spec.number}"
            conditions.append(SourceGuard(f"{spec.size} {relation}", False, f"{spec.name} is used as a size"))
    return shapes, conditions


def _words(source: str) -> set[str]:
    return set(re.findall(r"[^\W\d]\w*", source))


def _computed(name: str, source: str) -> list[str]:
    """The lines that compute a size, and refuse the call where it is undefined or negative."""
    raised = ", ".join(error.__name__ for error in NO_NUMBER)
    return [
        "    try:",
        f"        {name} = {source}",
        f"    except ({raised}):",
        "        return None",
        f"    if {name} < 0: return None",
    ]


def _check(number: int, condition: SourceGuard) -> str:
    action = f"raise broken({number}, locals())" if condition.required else "return None"
    note = " ".join(str(condition).split())
    return f"    if not ({condition.source}): {action}  # {note}"


def _catch_division(lines: list[str]) -> list[str]:
    head, *body = lines
    caught = ["    except ZeroDivisionError:", "        return None"]
    return [head, "    try:", *(f"    {line}" for line in body), *caught]


def broken(condition: SourceGuard, sizes: Mapping[str, object]) -> ZenithError:
    """The error for a requirement that a call does not meet."""
    mentioned = set(re.findall(r"\w+", condition.source))
    known = ", ".join(f"{name} = {value}" for name, value in sizes.items() if name in mentioned)
    return condition.raises(
        f"{condition.reason or 'sizes do not fit'}: {condition.source} does not hold in this call ({known})",
        where=condition.line,
        fix="change the sizes of the arguments",
    )
