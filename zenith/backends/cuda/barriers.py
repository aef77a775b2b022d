"""Barriers of a team: where its threads wait for each other, since one reads or overwrites what another has accessed.

Threads share the memory that a kernel both writes and reads: scratch buffers, and rows of results that are stored there
for a while; a thread's strips are its own. Two statements that access such a buffer need a barrier between them if one
of them writes. A loop's iterations follow each other, so the last statement of a body and the first one may need it,
too (a loop-carried dependence). Tiles staged in alternating buffers need none: an iteration begins with a barrier.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.cuda.forms import WARP
from zenith.backends.kernel import Kernel, Scratch, Statement, Strip, walk
from zenith.backends.memory_effects import touched
from zenith.backends.tiles import RegisterMatrix, StageTile


@dataclass(frozen=True, slots=True)
class SinceBarrier:
    """What has happened since the last barrier: buffers read and written, and asynchronous copies begun."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    copying: bool = False

    def __or__(self, other: SinceBarrier) -> SinceBarrier:
        """What may have happened on one of two paths through the program."""
        return SinceBarrier(self.read | other.read, self.written | other.written, self.copying or other.copying)


@dataclass
class Barriers:
    """The buffers that threads share, and what has happened since the last barrier."""

    shared: set[str]
    since: SinceBarrier = SinceBarrier()

    @classmethod
    def of(cls, kernel: Kernel) -> Barriers:
        """The state in front of the first statement of a kernel."""
        read, written = touched(kernel.body)
        own = {s.name for s in walk(kernel.body) if isinstance(s, RegisterMatrix | Strip)}
        own |= {s.target for s in walk(kernel.body) if isinstance(s, StageTile) and s.in_turns}
        return cls((read & written | {s.name for s in walk(kernel.body) if isinstance(s, Scratch)}) - own)

    def is_needed(self, statements: tuple[Statement, ...]) -> bool:
        """Whether statements need a barrier in front of them."""
        read, written = (names & self.shared for names in touched(statements))
        return bool(written & (self.since.read | self.since.written) or read & self.since.written)

    def note(self, statements: tuple[Statement, ...]) -> None:
        """Note the accesses of statements."""
        read, written = (frozenset(names & self.shared) for names in touched(statements))
        self.since |= SinceBarrier(read, written)

    def note_copies(self) -> None:
        """Note that asynchronous copies have begun."""
        self.since |= SinceBarrier(copying=True)

    def barrier(self, team: str) -> list[str]:
        """The lines of a barrier, where asynchronous copies of the team's threads are complete, too."""
        lines = ["wait_copies(0)"] if self.since.copying else []
        self.since = SinceBarrier()
        if team != "team":
            return [*lines, "cuda.syncthreads()" if int(team) > WARP else "cuda.syncwarp()"]
        return [*lines, f"if team > {WARP}:", "    cuda.syncthreads()", "else:", "    cuda.syncwarp()"]

    @property
    def pending(self) -> bool:
        """Whether shared memory was accessed since the last barrier."""
        return bool(self.since.read or self.since.written)
