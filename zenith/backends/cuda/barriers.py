"""Barriers of a team: where its threads wait for each other, because one reads or overwrites what another touched.

What several threads touch is memory that the kernel both writes and reads: scratch buffers, and rows of results that
are kept there for a while. Between two statements that touch such a buffer, one of them writing, stands a barrier. A
loop's iterations follow each other, so a loop that touches any ends with one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from zenith.backends.cuda.forms import every
from zenith.backends.kernel import (
    Apply,
    Check,
    Expr,
    Fold,
    Kernel,
    Let,
    Load,
    Scratch,
    SharedProduct,
    SoftmaxTile,
    Statement,
    Store,
)


@dataclass
class Barriers:
    """The buffers that threads share, and what happened to them since the last barrier."""

    shared: set[str]
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, kernel: Kernel) -> Barriers:
        """Before the first statement of a kernel."""
        read, written = touched(kernel.body)
        return cls(read & written | {s.name for s in every(kernel.body) if isinstance(s, Scratch)})

    def needed_before(self, statements: Sequence[Statement]) -> bool:
        """Whether a barrier has to stand before statements; from then on they count as done."""
        read, written = (names & self.shared for names in touched(statements))
        conflict = bool(written & (self.read | self.written) or read & self.written)
        if conflict:
            self.passed()
        self.read |= read
        self.written |= written
        return conflict

    @property
    def pending(self) -> bool:
        """Whether shared memory was touched since the last barrier."""
        return bool(self.read or self.written)

    def passed(self) -> None:
        """There is a barrier here."""
        self.read, self.written = set(), set()


def touched(statements: Sequence[Statement]) -> tuple[set[str], set[str]]:
    """The buffers that statements read, and those that they write."""
    read, written = set[str](), set[str]()
    for s in every(statements):
        match s:
            case Let(_, value) | Check(_, value):
                read |= _loads(value)
            case Store(buffer, _, value):
                read |= _loads(value)
                written.add(buffer)
            case Fold():
                read |= {b for a in s.accumulators for b in _loads(a.value)}
            case SharedProduct():
                read |= {s.a.buffer, s.b.buffer, *([] if s.onto == 0 else [s.target.buffer])}
                written.add(s.target.buffer)
            case SoftmaxTile():
                read |= {s.scores.buffer, *s.state}
                written |= {s.scores.buffer, *s.state}
    return read, written


def _loads(expr: Expr) -> set[str]:
    if isinstance(expr, Load):
        return {expr.buffer}
    return {b for a in expr.args for b in _loads(a)} if isinstance(expr, Apply) else set()
