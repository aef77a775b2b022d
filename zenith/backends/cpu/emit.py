"""Printing kernels for the CPU: loops over long chains of elementary functions, and over prefixes, run in stages.

One element's chain of operations is thousands of cycles deep in latency and a core looks only some hundred
instructions ahead, so a loop over a long chain waits for its own results. Strip-mined and split into stages, each a
short loop over the same ``STRIP`` elements whose results stay in the first-level cache, the chains of many elements
overlap: sigmoid(exp(tanh(gelu(x)))) took 2.35 ns an element in one loop and the sum of its functions' times in four.

Prefixes are split off in the same way: the stages before and after one are vectorised, and between them a call computes
the prefix of a strip (:mod:`zenith.backends.cpu.prefix_scan`), directly from the operand's buffer or into the result's,
where these are contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.backends.cpu.loop_fission import Staged, Stages, stages
from zenith.backends.cpu.prefix_scan import RUNNING
from zenith.backends.cpu.vectors import select
from zenith.backends.emit import FOLDS, Printer, indented
from zenith.backends.expressions import filled
from zenith.backends.kernel import Accumulator, Fold, Kernel, Let, Loop, Running, Search, Statement, runs
from zenith.ir.dims import Dim, symbol

STRIP = 512  # elements of a strip: the results of its stages, some arrays of 2 KB, stay in the first-level cache
SHORT = 32  # iterations of a loop in which a prefix is not worth stages


class CpuPrinter(Printer):
    """Prints kernels as scalar Python loops, long loops over lanes in stages."""

    def kernel(self, kernel: Kernel) -> str:
        self._scratches = 0
        return super().kernel(kernel)

    def iterate(self, index: str, start: str, stop: str, lanes: bool, body: Sequence[Statement]) -> list[str]:
        bodies = stages(body) if lanes else []
        if len(bodies) < 2:
            return super().iterate(index, start, stop, lanes, body)
        return self._strips(index, start, stop, Stages(bodies, index))

    def loop(self, loop: Loop) -> list[str]:
        bodies = stages(loop.body) if runs(loop.body) and not _is_short(loop.start, loop.stop) else []
        if not bodies:
            return super().loop(loop)
        return self._strips(loop.index, self.size(loop.start), self.size(loop.stop), Stages(bodies, loop.index))

    def fold(self, fold: Fold) -> list[str]:
        apart = [a for a in fold.accumulators if a.combine in RUNNING and a.combine not in FOLDS]
        bodies = stages(fold.body) if runs(fold.body) or apart else []
        if not bodies or _is_short(fold.start, fold.stop):
            return super().fold(fold)
        joined = [a for a in fold.accumulators if a not in apart]
        bodies[-1] += joined
        for a in apart:
            bodies[-1].append(Running(a.name, a.dtype, a.start, a.combine, a.value))
            bodies.append([])
        lines = self.starts(joined)
        lines += self._strips(fold.index, self.size(fold.start), self.size(fold.stop), Stages(bodies, fold.index))
        return lines + [f"{a.name} = {a.name}_before" for a in apart]

    def _strips(self, index: str, start: str, stop: str, stages: Stages) -> list[str]:
        """A loop over strips with all stages in it; a prefix goes on from ``..._before``."""
        lines = self.starts(stages.running, "_before")
        names: dict[str, str] = {}
        for name, dtype in stages.scratch.items():
            self._scratches += 1
            names[name] = f"staged{self._scratches}"
            lines.append(f"{names[name]} = {dtype}_scratch({STRIP})")
        strip, last = f"{index}_strip", f"{index}_last"
        lines += [f"for {strip} in range({start}, {stop}, {STRIP}):", f"    {last} = min({strip} + {STRIP}, {stop})"]
        for number, body in enumerate(stages.bodies):
            end = body[-1] if body else None
            if isinstance(end, Search):
                lines += indented(self._search_all(end, number, stages, names))
            elif not (isinstance(end, Running) and self._is_only_load(end, body, stages)):
                lines += indented(self._each(index, self._stage(number, stages, names)))
            if isinstance(end, Running) and end.combine in RUNNING:
                lines.append("    " + self._run(end, body, stages, names))
        return lines

    def _each(self, index: str, body: Sequence[str]) -> list[str]:
        """Lines for each element of a strip."""
        head = f"for {index} in range({index}_strip, {index}_last):"
        return [head, *indented(body)] if body else []

    def _search_all(self, search: Search, number: int, stages: Stages, names: dict[str, str]) -> list[str]:
        """A binary search for all elements of a strip in lockstep, so that their loads overlap."""
        index, left = stages.index, f"{search.at}_left"
        item = f"{names[search.name]}[{index} - {index}_strip]"
        *step, rest = self.halve(search)
        step = [*self._loads(number, stages, names), f"{search.name} = {item}", *step, f"{item} = {search.name}"]
        lines = [*self._each(index, [f"{item} = i64(0)"]), f"{left} = i64({self.size(search.stop)})"]
        return [*lines, f"while {left} > 0:", *indented((*self._each(index, step), rest))]

    def _is_only_load(self, run: Running, body: Sequence[Staged], stages: Stages) -> bool:
        """Whether a prefix's stage only loads its operand from contiguous memory, which the call can read itself."""
        return run.combine in RUNNING and stages.source(run, body) is not None

    def _run(self, run: Running, body: Sequence[Staged], stages: Stages, names: dict[str, str]) -> str:
        """The call that computes the prefix of a strip."""
        target = stages.targets.get(run.name)
        source = stages.source(run, body) or target

        def argument(found: tuple[str, Dim] | None) -> str:
            if found is None:
                return f"{names[run.name]}, 0"
            return f"{found[0]}, {self.size(found[1].substitute({stages.index: symbol(f'{stages.index}_strip')}))}"

        lanes, count = select().lanes(run.dtype.itemsize), f"{stages.index}_last - {stages.index}_strip"
        words = f"{lanes}, {argument(target)}, {argument(source)}, {count}, {run.name}_before"
        return f"{run.name}_before = {RUNNING[run.combine].__name__}({words})"

    def _stage(self, number: int, stages: Stages, names: dict[str, str]) -> list[str]:
        """One stage: it loads what it needs of earlier stages, and stores what later ones need."""
        lines = self._loads(number, stages, names)
        for own in stages.bodies[number]:
            if isinstance(own, Running):
                lines += self._before(own, self._element(own.name, stages, names))
            elif isinstance(own, Accumulator):
                lines += self.joined([own])
            elif not stages.is_stored(own) and not isinstance(own, Search):
                lines += self.statement(own)
                if isinstance(own, Let) and own.name in names:
                    lines.append(f"{self._element(own.name, stages, names)} = {own.name}")
        return lines

    def _loads(self, number: int, stages: Stages, names: dict[str, str]) -> list[str]:
        """What a stage needs of earlier ones: loads of what they stored, and again their loads from other buffers."""
        lines: list[str] = []
        for s in stages.needed(number):
            is_stored = s.name in names or s.name in stages.targets
            lines += [f"{s.name} = {self._element(s.name, stages, names)}"] if is_stored else self.statement(s)
        return lines

    def _element(self, name: str, stages: Stages, names: dict[str, str]) -> str:
        """The element of a scratch buffer, or of a prefix's target, in which a value is stored."""
        if name in names:
            return f"{names[name]}[{stages.index} - {stages.index}_strip]"
        buffer, at = stages.targets[name]
        return f"{buffer}[{self.size(at)}]"

    def _before(self, run: Running, element: str) -> list[str]:
        """The operand of a prefix's call; where no function computes it, the prefix, one by one."""
        before = f"{run.name}_before"
        if run.combine in RUNNING:
            return [f"{element} = {self.expression(run.value)}"]
        words = [before, *map(self.expression, run.values)]
        return [f"{before} = {run.dtype}({filled(run.combine, words, run.dtype)})", f"{element} = {before}"]


def _is_short(start: Dim, stop: Dim) -> bool:
    count = (stop - start).static
    return count is not None and count <= SHORT
