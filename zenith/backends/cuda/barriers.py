"""Barriers of a team: where its threads wait for each other, because one reads or overwrites what another touched.

What several threads touch is memory that the kernel both writes and reads: scratch buffers, and rows of results that
are kept there for a while; a thread's strips are its own. Between two statements that touch such a buffer, one of them
writing, stands a barrier. A loop's iterations follow each other, so between the last statement of a body and the first
one may have to stand, too. Tiles that are staged in turns are known to be safe: the statement that begins a turn meets.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.kernel import Kernel, RegisterMatrix, Scratch, StageTile, Statement, Strip, walk
from zenith.backends.memory_effects import touched


@dataclass
class Barriers:
    """The buffers that threads share, and what happened to them since the last barrier."""

    shared: set[str]
    state: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())  # read and written since

    @classmethod
    def of(cls, kernel: Kernel) -> Barriers:
        """Before the first statement of a kernel."""
        read, written = touched(kernel.body)
        own = {s.name for s in walk(kernel.body) if isinstance(s, RegisterMatrix | Strip)}
        own |= {s.target for s in walk(kernel.body) if isinstance(s, StageTile) and s.in_turns}
        return cls((read & written | {s.name for s in walk(kernel.body) if isinstance(s, Scratch)}) - own)

    def enter(self, statements: tuple[Statement, ...]) -> bool:
        """Take note of statements; whether a barrier has to stand before them, which then counts."""
        read, written = (names & self.shared for names in touched(statements))
        earlier = self.state
        conflict = bool(written & (earlier[0] | earlier[1]) or read & earlier[1])
        if conflict:
            earlier = frozenset(), frozenset()
        self.state = earlier[0] | read, earlier[1] | written
        return conflict

    def meet(self) -> None:
        """A barrier stands here."""
        self.state = frozenset(), frozenset()

    def again(self, statements: tuple[Statement, ...]) -> bool:
        """Whether a barrier has to stand behind statements before they begin again."""
        read, written = (names & self.shared for names in touched(statements))
        return bool(written & (self.state[0] | self.state[1]) or read & self.state[1])

    def join(self, other: tuple[frozenset[str], frozenset[str]]) -> None:
        """What happened may be this or, as well, something else."""
        self.state = self.state[0] | other[0], self.state[1] | other[1]

    @property
    def pending(self) -> bool:
        """Whether shared memory was touched since the last barrier."""
        return any(self.state)
