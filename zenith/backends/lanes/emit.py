"""Printing a kernel as NumPy code: a whole lanes loop is one operation, which checks values far faster than a loop."""

from __future__ import annotations

from collections.abc import Sequence

from zenith.backends.emit import Printer
from zenith.backends.kernel import AtomicAdd, Fold, Loop, Running, Simple, Statement, runs


class LanesPrinter(Printer):
    """Prints a lanes loop as NumPy operations on all its lanes at once; other loops stay, and so do folds of a lane."""

    in_lanes = ""  # the index of the enclosing lanes loop, if there is one
    along = ""  # the index of the enclosing loop that is one operation and computes prefixes

    def line(self, statement: Simple) -> str:
        if isinstance(statement, AtomicAdd) and self.in_lanes:  # one addition a lane, even where all have one position
            at, value = self.size(statement.at), self.expression(statement.value)
            return f"atomic_add({statement.buffer}, {at} + 0*{self.in_lanes}, {value})"
        return super().line(statement)

    def loop(self, loop: Loop) -> list[str]:
        if self.in_lanes or not runs(loop.body):
            return super().loop(loop)
        self.along = loop.index
        lines = self.iterate(loop.index, self.size(loop.start), self.size(loop.stop), True, loop.body)
        self.along = ""
        return lines

    def running(self, run: Running) -> list[str]:
        if not self.along:
            return super().running(run)
        words = map(self.expression, (run.initial, *run.values))
        return [f"{run.name} = run_along({run.combine!r}, {self.along}, {', '.join(words)})"]

    def iterate(self, index: str, start: str, stop: str, lanes: bool, body: Sequence[Statement]) -> list[str]:
        if not lanes:
            return super().iterate(index, start, stop, lanes, body)
        self.in_lanes = index
        lines = [f"{index} = lanes({start}, {stop})", *self.statements(body)]
        self.in_lanes = ""
        return lines

    def fold(self, fold: Fold) -> list[str]:
        if self.in_lanes:
            return super().fold(fold)
        if fold.start == fold.stop:  # without lanes, a check in it would run once all the same
            return self.starts(fold.accumulators)
        self.along = fold.index
        lines = [f"{fold.index} = lanes({self.size(fold.start)}, {self.size(fold.stop)})"]
        lines += self.statements(fold.body)
        self.along = ""
        for a in fold.accumulators:
            start, value = self.expression(a.start), self.expression(a.value)
            lines.append(f"{a.name} = join({a.combine!r}, {start}, {value}, {fold.index})")
        return lines
