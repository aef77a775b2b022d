"""Stages: the statements of a loop, cut where something stands between them that all elements of a strip share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from zenith.backends.cpu.prefix_scan import RUNNING
from zenith.backends.kernel import (
    Accumulator,
    Apply,
    Expr,
    Let,
    Load,
    Name,
    Position,
    Running,
    Search,
    Statement,
    Store,
)
from zenith.backends.lower.collapse import step
from zenith.backends.memory_effects import touched
from zenith.backends.scalars import ELEMENTARY
from zenith.ir.dims import Dim
from zenith.ir.types import int64

_HEAVY = re.compile(rf"\b({'|'.join(ELEMENTARY)})\(")
Staged = Let | Store | Running | Search | Accumulator


class Stages:
    """The stages of a loop, and what passes between them: ``kept`` in scratch memory, by name with its element type.

    ``targets`` are the prefixes that are made where the loop would store them.
    """

    def __init__(self, parts: list[list[Staged]], index: str) -> None:
        self.parts, self.index = parts, index
        body = [s for part in parts for s in part]
        self.running = [s for s in body if isinstance(s, Running)]
        self.read, self.written = touched(tuple(s for s in body if not isinstance(s, Accumulator)))
        self.read |= {b for s in body if isinstance(s, Accumulator) for b in touched((Let("", s.value),))[0]}
        self.bound = {s.name for s in body if isinstance(s, Let | Running | Search)}
        self.targets = dict(self._find_targets(body))
        self.kept = {s.name: s.value.dtype for s in self._carried()}
        self.kept |= {r.name: r.dtype for r in self.running if r.name not in self.targets}
        self.kept |= {s.name: int64 for s in body if isinstance(s, Search)}

    def _find_targets(self, body: Sequence[Staged]) -> Iterator[tuple[str, tuple[str, Dim]]]:
        """Where prefixes are stored as they are, at neighbouring places of memory that is not read here."""
        stores = [s for s in body if isinstance(s, Store)]
        for run in self.running:
            for s in stores:
                alone = s.buffer not in self.read and sum(other.buffer == s.buffer for other in stores) == 1
                if run.combine in RUNNING and s.value == Name(run.name, run.dtype) and alone and self._is_along(s.at):
                    yield run.name, (s.buffer, s.at)
                    break

    def _is_along(self, at: Dim) -> bool:
        return step(at, self.index) == 1 and not at.symbols() & self.bound

    def source(self, run: Running, part: Sequence[Staged]) -> tuple[str, Dim] | None:
        """Where all that a prefix joins are neighbours in memory, if they are and its stage does nothing else."""
        if len(part) != 2 or not isinstance(part[0], Let) or run.value != Name(part[0].name, run.dtype):
            return None
        value = part[0].value
        if not isinstance(value, Load) or part[0].name in self.kept or not self._is_along(value.at):
            return None
        return value.buffer, value.at

    def is_stored(self, s: Staged) -> bool:
        """Whether a store was done by the prefix that it stores."""
        return isinstance(s, Store) and isinstance(s.value, Name) and self.targets.get(s.value.name) == (s.buffer, s.at)

    def needed(self, number: int) -> list[Let | Running | Search]:
        """What a stage uses of earlier ones."""
        part = [s for s in self.parts[number] if not self.is_stored(s)]
        names = used_by(part) - {s.name for s in part if isinstance(s, Let)}
        earlier = [s for p in self.parts[:number] for s in p]
        return [s for s in earlier if isinstance(s, Let | Running | Search) and s.name in names]

    def _carried(self) -> list[Let]:
        """What a later stage uses of an earlier one, but for elements that nobody writes: they are read again."""
        found = []
        for position, part in enumerate(self.parts):
            later = {name for p in self.parts[position + 1 :] for name in used_by(p)}
            for s in part:
                if isinstance(s, Let) and s.name in later and not self._can_be_read_again(s.value):
                    found.append(s)
        return found

    def _can_be_read_again(self, expr: Expr) -> bool:
        return isinstance(expr, Load) and expr.buffer not in self.written and not (expr.at.symbols() & self.bound)


def stages(body: Sequence[Statement]) -> list[list[Staged]]:
    """A body cut behind each elementary function, behind what runs along, and around searches.

    Fewer than two parts when nothing is to be cut.
    """
    parts: list[list[Staged]] = [[]]
    for s in body:
        if not isinstance(s, Let | Store | Running) and not (isinstance(s, Search) and _is_plain(s)):
            return []
        if isinstance(s, Running) and len(parts) > 1 and not parts[-1] and isinstance(parts[-2][-1], Let):
            parts.pop()  # what an elementary function gives runs along
        if isinstance(s, Search) and parts[-1]:
            parts.append([])
        parts[-1].append(s)
        if isinstance(s, Running | Search) or (isinstance(s, Let) and _is_heavy(s.value)):
            parts.append([])
    *parts, rest = parts
    if parts and isinstance(parts[-1][-1], Let):
        parts[-1] += rest
        return parts
    return [*parts, rest]


def _is_plain(search: Search) -> bool:
    return all(isinstance(s, Let) for s in search.body)


def _is_heavy(expr: Expr) -> bool:
    return isinstance(expr, Apply) and _HEAVY.search(expr.text) is not None


def used_by(part: Sequence[Staged]) -> set[str]:
    """The names that statements mention."""
    return {name for s in part for name in _mentioned(s)}


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
        yield from expr.at.symbols()  # a place that the program computed
    elif isinstance(expr, Apply):
        for argument in expr.args:
            yield from _names(argument)
