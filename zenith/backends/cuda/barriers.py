"""Barriers of a team: where its threads wait for each other, since one reads or overwrites what another has accessed.

Threads share the memory that a kernel both writes and reads: scratch buffers, and rows of results that are stored there
for a while; a thread's strips are its own. Two statements that access such a buffer need a barrier between them if one
of them writes. A loop's iterations follow each other, so the last statement of a body and the first one may need it,
too (a loop-carried dependence). Tiles staged in alternating buffers need none: an iteration begins with a barrier.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.kernel import Kernel, Scratch, Statement, Strip, walk
from zenith.backends.memory_effects import touched
from zenith.backends.tiles import RegisterMatrix, StageTile


@dataclass
class Barriers:
    """The buffers that threads share, and their accesses since the last barrier."""

    shared: set[str]
    state: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())  # read and written since

    @classmethod
    def of(cls, kernel: Kernel) -> Barriers:
        """The state in front of the first statement of a kernel."""
        read, written = touched(kernel.body)
        own = {s.name for s in walk(kernel.body) if isinstance(s, RegisterMatrix | Strip)}
        own |= {s.target for s in walk(kernel.body) if isinstance(s, StageTile) and s.in_turns}
        return cls((read & written | {s.name for s in walk(kernel.body) if isinstance(s, Scratch)}) - own)

    def enter(self, statements: tuple[Statement, ...]) -> bool:
        """Note the accesses of statements; whether they need a barrier in front, which is then taken as there."""
        read, written = (names & self.shared for names in touched(statements))
        earlier = self.state
        conflict = bool(written & (earlier[0] | earlier[1]) or read & earlier[1])
        if conflict:
            earlier = frozenset(), frozenset()
        self.state = earlier[0] | read, earlier[1] | written
        return conflict

    def meet(self) -> None:
        """Note a barrier."""
        self.state = frozenset(), frozenset()

    def is_loop_carried(self, statements: tuple[Statement, ...]) -> bool:
        """Whether a loop's body needs a barrier at its end, in front of the next iteration."""
        read, written = (names & self.shared for names in touched(statements))
        return bool(written & (self.state[0] | self.state[1]) or read & self.state[1])

    def join(self, other: tuple[frozenset[str], frozenset[str]]) -> None:
        """Join with the state of another path through the program."""
        self.state = self.state[0] | other[0], self.state[1] | other[1]

    @property
    def pending(self) -> bool:
        """Whether shared memory was accessed since the last barrier."""
        return any(self.state)
