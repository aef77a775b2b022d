"""Arrays that several names of a loop or branch show, in Python's way: assignment copies nothing.

A carried array is one of the loop's own, a *slot*. What the body writes into a slot went, in Python, into the array
that the name had before the turn; that may have been another slot's, one from before the loop, or one of the trace
around. Where such an array could be read under another name, the loop is refused, or what the other name shows is left
open. The same holds for what is written after a loop or branch into an array that it gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zenith.errors import TraceError, user_line
from zenith.trace.memory import BRANCH, LOOP, NUMBER, Memory
from zenith.trace.recorder import current_recorder
from zenith.trace.stands import WritingBody
from zenith.trace.tracer import Tracer

if TYPE_CHECKING:
    from zenith.convert.loop_tracing import LoopTracing

Slot = tuple[int, int]  # the number of a name, and of an array in its value


@dataclass(frozen=True)
class Sharing:
    """What the arrays of a loop's slots are: before the loop, in a turn, and at its end.

    ``outer`` are arrays of the trace around that slots show at a turn's end, ``passed`` the slots whose arrays they
    show.
    """

    body: WritingBody
    names: Sequence[str]
    given: dict[Slot, Memory]
    starts: dict[Slot, Tracer]
    ends: dict[Slot, Tracer]
    constant: frozenset[Slot]  # those that begin as an array of Python's

    @classmethod
    def of(cls, loop: LoopTracing) -> Sharing:
        """That of a traced loop."""
        given: dict[Slot, Memory] = {}
        starts: dict[Slot, Tracer] = {}
        ends: dict[Slot, Tracer] = {}
        constant: set[Slot] = set()
        for k, form in loop.forms.items():
            opened = loop.opened[k]
            for j in range(len(form)):
                if loop.given[k][j].memory.access == NUMBER:
                    continue
                given[k, j] = loop.given[k][j].memory
                start = None if opened is None else opened.leaves[j]
                if isinstance(start, Tracer) and start.memory.access != NUMBER:
                    starts[k, j] = root_of(start)
                elif isinstance(start, np.ndarray):
                    constant.add((k, j))
                end = loop.after[k].leaves[j]
                if isinstance(end, Tracer) and end.memory.access != NUMBER:
                    ends[k, j] = end
        return cls(loop.body.recorder, loop.loop.names.names, given, starts, ends, frozenset(constant))

    def passed(self, slot: Slot) -> list[Slot]:
        """The slots whose arrays a slot may show at the end of a turn."""
        related = self.ends[slot].memory.related() if slot in self.ends else {}
        return [other for other, memory in self.given.items() if memory in related]

    def before(self, slot: Slot) -> list[Slot]:
        """The slots whose arrays from before the loop a slot may show after one turn or more."""
        found = self.passed(slot)
        for other in found:  # which grows
            found += [s for s in self.passed(other) if s not in found]
        return found

    def outer(self, slot: Slot) -> list[Tracer]:
        """The arrays of the trace around that a slot may show at the end of a turn."""
        return outer_arrays(self.body, self.ends[slot]) if slot in self.ends else []

    def written(self) -> list[Slot]:
        """The slots into whose arrays some turn may write."""
        found = [s for s, memory in self.given.items() if memory.version or memory.clobbered is not None]
        for slot in found:
            found += [other for other in self.passed(slot) if other not in found]
        return found

    def check(self) -> Iterator[tuple[str, Tracer]]:
        """TraceError where sharing matters; else the arrays from before the loop that it writes, with their names."""
        written = self.written()
        touched = set(self.body.stands)
        changed = {s.outer.memory for s in self.body.written()}
        for slot in self.given:
            start = set(self.starts[slot].memory.related()) if slot in self.starts else set()
            outer = {m for root in self.outer(slot) for m in root.memory.related()}
            if slot not in written:
                if (start | outer) & changed:
                    self._refuse(slot)
                continue
            others = [o for o in self.given if o != slot]
            shared = any(o in self.starts and self.starts[o].memory in start for o in others)
            ends = set(self.ends[slot].memory.related()) if slot in self.ends else set()
            shared |= any(o in self.ends and self.ends[o].memory in ends for o in others)
            if shared or outer or start & touched or slot in self.constant:
                self._refuse(slot)
            if slot in self.starts:
                yield self.names[slot[0]], self.starts[slot]

    def _refuse(self, slot: Slot) -> None:
        name = self.names[slot[0]]
        raise TraceError(
            f"a loop writes into an array that {name} and another name show", where=user_line(),
            fix=f"copy one of them: {name} = {name}.copy()",
        )  # fmt: skip

    def note(self, results: dict[Slot, Tracer], runs: bool) -> None:
        """Note which arrays the results of the loop may be, in case one of them is written later."""
        for slot, result in results.items():
            if slot not in self.given:
                continue
            before = self.before(slot)
            begun = before if runs else [*before, slot]
            roots = [root for s in dict.fromkeys((slot, *before)) for root in self.outer(s)]
            roots += [self.starts[s] for s in begun if s in self.starts]
            roots += [
                results[o] for o in self.ends
                if o != slot and slot in self.ends and self.ends[o].memory in self.ends[slot].memory.related()
            ]  # fmt: skip
            may_be(result, roots, LOOP)


def root_of(array: Tracer) -> Tracer:
    """The tracer that stands for an array in the current trace."""
    recorder = current_recorder()
    return array if recorder is None else recorder.resolve(array)


def outer_arrays(body: WritingBody, array: Tracer) -> list[Tracer]:
    """The arrays of the trace around a body that an array at its end may show."""
    if array.recorder is not body:
        return [root_of(array)]
    related = array.memory.related()
    return [s.outer for s in body.stands.values() if s.tracer.memory in related]


def may_be(result: Tracer, roots: Sequence[Tracer], what: str) -> None:
    """Note that a loop or branch may have given an array that another name has."""
    if result.memory.access == NUMBER:
        return
    for memory in dict.fromkeys(r.memory for r in roots):
        if memory.access != NUMBER and memory is not result.memory and memory not in result.memory.related():
            result.memory.add_alias(memory, what)


def note_branch(result: Tracer, sides: Sequence[WritingBody], values: Sequence[object]) -> None:
    """Note which arrays the result of a branch may be."""
    roots: list[Tracer] = []
    for side, value in zip(sides, values, strict=True):
        if isinstance(value, Tracer) and value.memory.access != NUMBER:
            roots += outer_arrays(side, value)
    may_be(result, roots, BRANCH)
