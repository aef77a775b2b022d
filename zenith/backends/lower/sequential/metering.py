"""Fuel metering: how a kernel that may run for long, or for ever, finds out that its call is interrupted.

Whether it is takes as long to ask as some turns of a loop. So a variable, the fuel, counts turns down, and the kernel
asks where none is left: after each turn of a loop that has loops in it or that a condition ends. A loop without either,
whose turns are short, pays for all of them before, and one in another that a condition ends for the most that there may
be; the program's own is cut into chunks (strip-mining).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from zenith.backends.expressions import Apply, Name, Number, Position
from zenith.backends.kernel import Assign, Branch, Fold, Loop, Poll, Statement, TaskLoop, While, inner, walk
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.types import int64

FUEL = 1 << 18  # turns: a millisecond or some
SHORT = 64  # turns, those of inner loops included, that are as good as one


def metered(statements: Sequence[Statement], fresh: Callable[[str], str]) -> tuple[Statement, ...]:
    """The statements of a kernel, which returns soon after its call is interrupted; ``fresh`` makes names."""
    meter = Meter(fresh("fuel"), fresh("chunk"))
    found = tuple(s for statement in statements for s in meter.outermost(statement))
    polls = any(isinstance(s, Poll) for s in walk(found))
    return (Assign(meter.fuel, Number(FUEL, int64)), *found) if polls else found


@dataclass(frozen=True, slots=True)
class Meter:
    """Adds to statements what counts ``fuel`` down; ``chunk`` counts the chunks of the program's own loop."""

    fuel: str
    chunk: str

    def outermost(self, statement: Statement) -> Iterator[Statement]:
        """A statement that is in no loop."""
        if isinstance(statement, TaskLoop):
            following = self.spent(dim(1)) if _is_long(statement.body) else ()
            yield replace(statement, body=(*self.block(statement.body), *following))
            return
        if isinstance(statement, While):
            statement = replace(statement, most=None)
        if not isinstance(statement, Loop) or not _is_long([statement]) or _is_long(statement.body):
            yield from self.statement(statement)
            return
        index, length = symbol(self.chunk), statement.stop
        start, stop = FUEL * index, minimum(FUEL * index + FUEL, length)
        body = (replace(statement, start=start, stop=stop), *self.spent(dim(FUEL)))
        yield Loop(self.chunk, dim(0), (length + (FUEL - 1)) // FUEL, False, body)

    def statement(self, statement: Statement) -> Iterator[Statement]:
        """A statement, and what it costs."""
        match statement:
            case While(before, _, body, most) if most is not None and not _is_long((*before, *body)):
                yield self.burnt(maximum(most, 0))
                yield statement
            case While(before, condition, body):
                yield While(self.block(before), condition, (*self.block(body), *self.spent(dim(1))))
            case Loop(body=body) | Fold(body=body) if _is_long(body):
                yield replace(statement, body=(*self.block(body), *self.spent(dim(1))))
            case Loop() | Fold() if _is_long([statement]):
                yield self.burnt(statement.stop - statement.start)
                yield statement
            case Branch(cases=cases):
                yield replace(statement, cases=tuple(map(self.block, cases)))
            case _:
                yield statement

    def block(self, statements: Sequence[Statement]) -> tuple[Statement, ...]:
        """Statements in a loop."""
        return tuple(s for statement in statements for s in self.statement(statement))

    def burnt(self, turns: Dim) -> Statement:
        """Count turns down."""
        count = Number(turns.static, int64) if turns.static is not None else Position(turns)
        return Assign(self.fuel, Apply("x - y", (Name(self.fuel, int64), count), int64))

    def spent(self, turns: Dim) -> tuple[Statement, ...]:
        """Count turns down, and ask whether to go on where too many have run."""
        return self.burnt(turns), Poll(self.fuel, FUEL)


def _is_long(statements: Sequence[Statement]) -> bool:
    """Whether statements may take more than a few turns, all loops in them counted."""
    count = _turns(statements)
    return count is None or count > SHORT


def _turns(statements: Sequence[Statement]) -> int | None:
    """How many turns statements take; None where that is not known."""
    total = 0
    for statement in statements:
        own = None if isinstance(statement, While) else _turns(inner(statement))
        count = (statement.stop - statement.start).static if isinstance(statement, Loop | Fold) else 1
        if own is None or count is None:
            return None
        total += count * max(own, 1) if isinstance(statement, Loop | Fold) else own
    return total
