"""Loop fission: the statements of a loop split into stages, at all that is computed for a whole strip at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from zenith.backends.cpu.prefix_scan import RUNNING
from zenith.backends.expressions import Apply, Expr, Load, Name, Position
from zenith.backends.kernel import Accumulator, Let, Running, Search, Statement, Store
from zenith.backends.lower.collapse import step
from zenith.backends.memory_effects import touched
from zenith.backends.scalars import ELEMENTARY
from zenith.ir.dims import Dim
from zenith.ir.types import int64

HEAVY = re.compile(rf"\b({'|'.join(ELEMENTARY)})\(")
Staged = Let | Store | Running | Search | Accumulator


class Stages:
    """The stages of a loop, and what passes between them: ``scratch`` has names and element types of stored values.

    ``targets`` are the prefixes that are computed directly in the buffer to which the loop would store them.
    """

    def __init__(self, bodies: list[list[Staged]], index: str) -> None:
        self.bodies, self.index = bodies, index
        statements = [s for body in bodies for s in body]
        self.running = [s for s in statements if isinstance(s, Running)]
        self.read, self.written = touched(tuple(s for s in statements if not isinstance(s, Accumulator)))
        self.read |= {b for s in statements if isinstance(s, Accumulator) for b in touched((Let("", s.value),))[0]}
        self.bound = {s.name for s in statements if isinstance(s, Let | Running | Search)}
        self.targets = dict(self._find_targets(statements))
        self.scratch = {s.name: s.value.dtype for s in self._carried()}
        self.scratch |= {r.name: r.dtype for r in self.running if r.name not in self.targets}
        self.scratch |= {s.name: int64 for s in statements if isinstance(s, Search)}

    def _find_targets(self, statements: Sequence[Staged]) -> Iterator[tuple[str, tuple[str, Dim]]]:
        """Stores of prefixes as they are, at contiguous positions of a buffer that the loop does not read."""
        stores = [s for s in statements if isinstance(s, Store)]
        for run in self.running:
            for s in stores:
                alone = s.buffer not in self.read and sum(other.buffer == s.buffer for other in stores) == 1
                if run.combine in RUNNING and s.value == Name(run.name, run.dtype) and alone and self._is_dense(s.at):
                    yield run.name, (s.buffer, s.at)
                    break

    def _is_dense(self, at: Dim) -> bool:
        return step(at, self.index) == 1 and not at.symbols() & self.bound

    def source(self, run: Running, body: Sequence[Staged]) -> tuple[str, Dim] | None:
        """The buffer and position of a prefix's operand, if it is contiguous there and its stage only loads it."""
        if len(body) != 2 or not isinstance(body[0], Let) or run.value != Name(body[0].name, run.dtype):
            return None
        value = body[0].value
        if not isinstance(value, Load) or body[0].name in self.scratch or not self._is_dense(value.at):
            return None
        return value.buffer, value.at

    def is_stored(self, s: Staged) -> bool:
        """Whether the call that computes a prefix has done its store already."""
        return isinstance(s, Store) and isinstance(s.value, Name) and self.targets.get(s.value.name) == (s.buffer, s.at)

    def needed(self, number: int) -> list[Let | Running | Search]:
        """What a stage uses of earlier ones."""
        body = [s for s in self.bodies[number] if not self.is_stored(s)]
        names = used_by(body) - {s.name for s in body if isinstance(s, Let)}
        earlier = [s for b in self.bodies[:number] for s in b]
        return [s for s in earlier if isinstance(s, Let | Running | Search) and s.name in names]

    def _carried(self) -> list[Let]:
        """What later stages use of earlier ones, except elements that the loop never writes: they are reloaded."""
        found = []
        for number, body in enumerate(self.bodies):
            later = {name for b in self.bodies[number + 1 :] for name in used_by(b)}
            for s in body:
                if isinstance(s, Let) and s.name in later and not self._can_be_reloaded(s.value):
                    found.append(s)
        return found

    def _can_be_reloaded(self, expr: Expr) -> bool:
        return isinstance(expr, Load) and expr.buffer not in self.written and not (expr.at.symbols() & self.bound)


def stages(body: Sequence[Statement]) -> list[list[Staged]]:
    """A body split after each elementary function and each prefix, and around searches.

    Fewer than two stages when nothing is to be split.
    """
    bodies: list[list[Staged]] = [[]]
    for s in body:
        if not isinstance(s, Let | Store | Running) and not (isinstance(s, Search) and _is_plain(s)):
            return []
        if isinstance(s, Running) and len(bodies) > 1 and not bodies[-1] and isinstance(bodies[-2][-1], Let):
            bodies.pop()  # an elementary function's result is the prefix's operand
        if isinstance(s, Search) and bodies[-1]:
            bodies.append([])
        bodies[-1].append(s)
        if isinstance(s, Running | Search) or (isinstance(s, Let) and _is_heavy(s.value)):
            bodies.append([])
    *bodies, rest = bodies
    if bodies and isinstance(bodies[-1][-1], Let):
        bodies[-1] += rest
        return bodies
    return [*bodies, rest]


def _is_plain(search: Search) -> bool:
    return all(isinstance(s, Let) for s in search.body)


def _is_heavy(expr: Expr) -> bool:
    return isinstance(expr, Apply) and HEAVY.search(expr.text) is not None


def used_by(body: Sequence[Staged]) -> set[str]:
    """The names that statements mention."""
    return {name for s in body for name in _mentioned(s)}


def _mentioned(s: Staged) -> set[str]:
    values = s.values if isinstance(s, Running | Search) else (s.value,)
    names = {name for value in values for name in _names(value)}
    if isinstance(s, Store):
        return names | s.at.symbols()
    if isinstance(s, Search):
        inside = [let for let in s.body if isinstance(let, Let)]
        return (names | used_by(inside)) - {s.name, s.at, *(let.name for let in inside)}
    return names


def _names(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Name):
        yield expr.name
    elif isinstance(expr, (Load, Position)):
        yield from expr.at.symbols()  # a position that the program computed
    elif isinstance(expr, Apply):
        for argument in expr.args:
            yield from _names(argument)
