"""Printing kernels for the CPU: long chains of elementary functions are computed in stages, and so are prefixes.

One element's chain of operations is thousands of cycles deep in latency and a core looks only some hundred
instructions ahead, so a loop over a long chain waits for its own results. Cut into stages, each a short loop over the
same ``STRIP`` elements with what they hand on kept in the first-level cache, the chains of many elements overlap:
sigmoid(exp(tanh(gelu(x)))) took 2.35 ns an element in one loop and the sum of its parts in four.

What runs along with a loop, element by element, is cut off in the same way: what is in front and behind is vectors, and
between them stands a call that makes the prefix of a strip (:mod:`zenith.backends.cpu.prefix_scan`), from where the
values are or to where they go, if these are neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.backends.cpu.loop_fission import Staged, Stages, stages
from zenith.backends.cpu.prefix_scan import RUNNING
from zenith.backends.cpu.vectors import select
from zenith.backends.emit import FOLDS, Printer
from zenith.backends.kernel import Accumulator, Fold, Kernel, Let, Loop, Number, Running, Search, Statement, runs
from zenith.ir.dims import Dim, symbol

STRIP = 512  # elements of a stage: what it hands on, some arrays of 2 KB, stays in the first-level cache
SHORT = 32  # turns of a loop that is not worth stages for what runs along


class CpuPrinter(Printer):
    """Prints kernels as scalar Python loops, long lanes loops in stages."""

    def kernel(self, kernel: Kernel) -> str:
        self._scratches = 0
        return super().kernel(kernel)

    def iterate(self, index: str, start: str, stop: str, lanes: bool, body: Sequence[Statement]) -> list[str]:
        parts = stages(body) if lanes else []
        if len(parts) < 2:
            return super().iterate(index, start, stop, lanes, body)
        return self._strips(index, start, stop, Stages(parts, index))

    def loop(self, loop: Loop) -> list[str]:
        parts = stages(loop.body) if runs(loop.body) and not _is_short(loop.start, loop.stop) else []
        if not parts:
            return super().loop(loop)
        return self._strips(loop.index, self.size(loop.start), self.size(loop.stop), Stages(parts, loop.index))

    def fold(self, fold: Fold) -> list[str]:
        apart = [a for a in fold.accumulators if a.combine in RUNNING and a.combine not in FOLDS]
        parts = stages(fold.body) if runs(fold.body) or apart else []
        if not parts or _is_short(fold.start, fold.stop):
            return super().fold(fold)
        joined = [a for a in fold.accumulators if a not in apart]
        parts[-1] += joined
        for a in apart:
            parts[-1].append(Running(a.name, a.dtype, Number(a.initial, a.dtype), a.combine, a.value))
            parts.append([])
        lines = [f"{a.name} = {self.expression(Number(a.initial, a.dtype))}" for a in joined]
        lines += self._strips(fold.index, self.size(fold.start), self.size(fold.stop), Stages(parts, fold.index))
        return lines + [f"{a.name} = {a.name}_before" for a in apart]

    def _strips(self, index: str, start: str, stop: str, stages: Stages) -> list[str]:
        """The stages of strip after strip; what runs along goes on from ``..._before``."""
        lines = [f"{r.name}_before = {self.expression(r.initial)}" for r in stages.running]
        names: dict[str, str] = {}
        for name, dtype in stages.kept.items():
            self._scratches += 1
            names[name] = f"staged{self._scratches}"
            lines.append(f"{names[name]} = {dtype}_scratch({STRIP})")
        strip, last = f"{index}_strip", f"{index}_last"
        lines += [f"for {strip} in range({start}, {stop}, {STRIP}):", f"    {last} = min({strip} + {STRIP}, {stop})"]
        for number, part in enumerate(stages.parts):
            end = part[-1] if part else None
            if isinstance(end, Search):
                lines += ("    " + line for line in self._search_all(end, number, stages, names))
            elif not (isinstance(end, Running) and self._is_moved(end, part, stages)):
                lines += ("    " + line for line in self._each(index, self._stage(number, stages, names)))
            if isinstance(end, Running) and end.combine in RUNNING:
                lines.append("    " + self._run(end, part, stages, names))
        return lines

    def _each(self, index: str, body: Sequence[str]) -> list[str]:
        """Lines for each element of a strip."""
        head = f"for {index} in range({index}_strip, {index}_last):"
        return [head, *("    " + line for line in body)] if body else []

    def _search_all(self, search: Search, number: int, stages: Stages, names: dict[str, str]) -> list[str]:
        """A search for all elements of a strip, step by step: what they look at is fetched at the same time."""
        index, left = stages.index, f"{search.at}_left"
        kept = f"{names[search.name]}[{index} - {index}_strip]"
        *step, rest = self.halve(search)
        step = [*self._taken(number, stages, names), f"{search.name} = {kept}", *step, f"{kept} = {search.name}"]
        lines = [*self._each(index, [f"{kept} = i64(0)"]), f"{left} = i64({self.size(search.stop)})"]
        return [*lines, f"while {left} > 0:", *("    " + line for line in (*self._each(index, step), rest))]

    def _is_moved(self, run: Running, part: Sequence[Staged], stages: Stages) -> bool:
        """Whether all that a stage does ahead of a prefix is to read neighbours in memory."""
        return run.combine in RUNNING and stages.source(run, part) is not None

    def _run(self, run: Running, part: Sequence[Staged], stages: Stages, names: dict[str, str]) -> str:
        """The call that makes the prefix of a strip."""
        target = stages.targets.get(run.name)
        source = stages.source(run, part) or target

        def place(found: tuple[str, Dim] | None) -> str:
            if found is None:
                return f"{names[run.name]}, 0"
            return f"{found[0]}, {self.size(found[1].substitute({stages.index: symbol(f'{stages.index}_strip')}))}"

        lanes, count = select().lanes(run.dtype.itemsize), f"{stages.index}_last - {stages.index}_strip"
        words = f"{lanes}, {place(target)}, {place(source)}, {count}, {run.name}_before"
        return f"{run.name}_before = {RUNNING[run.combine].__name__}({words})"

    def _stage(self, number: int, stages: Stages, names: dict[str, str]) -> list[str]:
        """One stage: what it needs is taken from where it was kept, what later stages need is kept."""
        lines = self._taken(number, stages, names)
        for own in stages.parts[number]:
            if isinstance(own, Running):
                lines += self._before(own, self._kept(own.name, stages, names))
            elif isinstance(own, Accumulator):
                joined = self._combine(own.combine, own.name, self.expression(own.value))
                lines.append(f"{own.name} = {own.dtype}({joined})")
            elif not stages.is_stored(own) and not isinstance(own, Search):
                lines += self.statement(own)
                if isinstance(own, Let) and own.name in names:
                    lines.append(f"{self._kept(own.name, stages, names)} = {own.name}")
        return lines

    def _taken(self, number: int, stages: Stages, names: dict[str, str]) -> list[str]:
        """What a stage needs, taken from where it was kept."""
        lines: list[str] = []
        for s in stages.needed(number):
            is_kept = s.name in names or s.name in stages.targets
            lines += [f"{s.name} = {self._kept(s.name, stages, names)}"] if is_kept else self.statement(s)
        return lines

    def _kept(self, name: str, stages: Stages, names: dict[str, str]) -> str:
        """Where an element is kept."""
        if name in names:
            return f"{names[name]}[{stages.index} - {stages.index}_strip]"
        buffer, at = stages.targets[name]
        return f"{buffer}[{self.size(at)}]"

    def _before(self, run: Running, kept: str) -> list[str]:
        """Ahead of a prefix: what it joins; where no call does that, it is joined here, one by one."""
        before = f"{run.name}_before"
        if run.combine in RUNNING:
            return [f"{kept} = {self.expression(run.value)}"]
        words = [before, *map(self.expression, run.values)]
        return [f"{before} = {run.dtype}({self.apply(run.combine, words)})", f"{kept} = {before}"]


def _is_short(start: Dim, stop: Dim) -> bool:
    turns = (stop - start).static
    return turns is not None and turns <= SHORT
