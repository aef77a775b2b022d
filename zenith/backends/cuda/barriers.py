"""Barriers of a team: where its threads wait for each other, because one reads or overwrites what another touched.

What several threads touch is memory that the kernel both writes and reads: scratch buffers, and rows of results that
are kept there for a while; a thread's strips are its own. Between two statements that touch such a buffer, one of them
writing, stands a barrier. A loop's iterations follow each other, so a loop that touches any ends with one.
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.backends.footprint import touched
from zenith.backends.kernel import Held, Kernel, Scratch, Statement, Strip, walk


@dataclass
class Barriers:
    """The buffers that threads share, and what happened to them since the last barrier."""

    shared: set[str]
    state: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())  # read and written since

    @classmethod
    def of(cls, kernel: Kernel) -> Barriers:
        """Before the first statement of a kernel."""
        read, written = touched(kernel.body)
        own = {s.name for s in walk(kernel.body) if isinstance(s, Held | Strip)}  # in registers: nobody else's
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

    @property
    def pending(self) -> bool:
        """Whether shared memory was touched since the last barrier."""
        return any(self.state)
