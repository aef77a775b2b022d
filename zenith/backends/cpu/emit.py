"""Printing kernels for the CPU: long chains of elementary functions are computed in stages, and so are prefixes.

One element's chain of operations is thousands of cycles deep in latency and a core looks only some hundred
instructions ahead, so a loop over a long chain waits for its own results. Cut into stages, each a short loop over the
same ``STRIP`` elements with what they hand on kept in the first-level cache, the chains of many elements overlap:
sigmoid(exp(tanh(gelu(x)))) took 2.35 ns an element in one loop and the sum of its parts in four.

What runs along with a loop, element by element, is cut off in the same way: what is in front and behind is vectors, and
between them stands a call that makes the prefix of a strip (:mod:`zenith.backends.cpu.running`), from where the values
are or to where they go, if these are neighbours in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from zenith.backends.cpu.running import RUNNING
from zenith.backends.cpu.vectors import select
from zenith.backends.emit import FOLDS, Printer
from zenith.backends.footprint import touched
from zenith.backends.kernel import (
    Accumulator,
    Apply,
    Expr,
    Fold,
    Kernel,
    Let,
    Load,
    Loop,
    Name,
    Number,
    Position,
    Running,
    Statement,
    Store,
    runs,
)
from zenith.backends.lower.collapse import step
from zenith.backends.scalars import ELEMENTARY
from zenith.ir.dims import Dim, symbol

STRIP = 512  # elements of a stage: what it hands on, some arrays of 2 KB, stays in the first-level cache
SHORT = 32  # turns of a loop that is not worth stages for what runs along

_HEAVY = re.compile(rf"\b({'|'.join(ELEMENTARY)})\(")
Staged = Let | Store | Running | Accumulator


class CpuPrinter(Printer):
    """Prints kernels as scalar Python loops, long lanes loops in stages."""

    def kernel(self, kernel: Kernel) -> str:
        self._scratches = 0
        return super().kernel(kernel)

    def iterate(self, index: str, start: str, stop: str, lanes: bool, body: Sequence[Statement]) -> list[str]:
        parts = stages(body) if lanes else []
        if len(parts) < 2:
            return super().iterate(index, start, stop, lanes, body)
        return self._strips(index, start, stop, _Stages(parts, index))

    def loop(self, loop: Loop) -> list[str]:
        parts = stages(loop.body) if runs(loop.body) and not _is_short(loop.start, loop.stop) else []
        if not parts:
            return super().loop(loop)
        return self._strips(loop.index, self.size(loop.start), self.size(loop.stop), _Stages(parts, loop.index))

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
        lines += self._strips(fold.index, self.size(fold.start), self.size(fold.stop), _Stages(parts, fold.index))
        return lines + [f"{a.name} = {a.name}_before" for a in apart]

    def _strips(self, index: str, start: str, stop: str, stages: _Stages) -> list[str]:
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
            run = part[-1] if part and isinstance(part[-1], Running) else None
            if run is None or not self._is_moved(run, part, stages):
                body = self._stage(number, stages, names)
                lines += [f"    for {index} in range({strip}, {last}):", *("        " + line for line in body)] * bool(
                    body
                )
            if run is not None and run.combine in RUNNING:
                lines.append("    " + self._run(run, part, stages, names))
        return lines

    def _is_moved(self, run: Running, part: Sequence[Staged], stages: _Stages) -> bool:
        """Whether all that a stage does ahead of a prefix is to read neighbours in memory."""
        return run.combine in RUNNING and stages.source(run, part) is not None

    def _run(self, run: Running, part: Sequence[Staged], stages: _Stages, names: dict[str, str]) -> str:
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

    def _stage(self, number: int, stages: _Stages, names: dict[str, str]) -> list[str]:
        """One stage: what it needs is taken from where it was kept, what later stages need is kept."""

        def kept(name: str) -> str:
            if name in names:
                return f"{names[name]}[{stages.index} - {stages.index}_strip]"
            buffer, at = stages.targets[name]
            return f"{buffer}[{self.size(at)}]"

        lines: list[str] = []
        for s in stages.needed(number):
            is_kept = s.name in names or s.name in stages.targets
            lines += [f"{s.name} = {kept(s.name)}"] if is_kept else self.statement(s)
        for own in stages.parts[number]:
            if isinstance(own, Running):
                lines += self._before(own, kept(own.name))
            elif isinstance(own, Accumulator):
                joined = self._combine(own.combine, own.name, self.expression(own.value))
                lines.append(f"{own.name} = {own.dtype}({joined})")
            elif not stages.is_stored(own):
                lines += self.statement(own)
                if isinstance(own, Let) and own.name in names:
                    lines.append(f"{kept(own.name)} = {own.name}")
        return lines

    def _before(self, run: Running, kept: str) -> list[str]:
        """Ahead of a prefix: what it joins; where no call does that, it is joined here, one by one."""
        before = f"{run.name}_before"
        if run.combine in RUNNING:
            return [f"{kept} = {self.expression(run.value)}"]
        words = [before, *map(self.expression, run.values)]
        return [f"{before} = {run.dtype}({self.apply(run.combine, words)})", f"{kept} = {before}"]


class _Stages:
    """The stages of a loop, and what passes between them: ``kept`` in scratch memory, by name with its element type.

    ``targets`` are the prefixes that are made where the loop would store them.
    """

    def __init__(self, parts: list[list[Staged]], index: str) -> None:
        self.parts, self.index = parts, index
        body = [s for part in parts for s in part]
        self.running = [s for s in body if isinstance(s, Running)]
        self.read, self.written = touched(tuple(s for s in body if not isinstance(s, Accumulator)))
        self.read |= {b for s in body if isinstance(s, Accumulator) for b in touched((Let("", s.value),))[0]}
        self.bound = {s.name for s in body if isinstance(s, Let | Running)}
        self.targets = dict(self._find_targets(body))
        self.kept = {s.name: s.value.dtype for s in self._carried()}
        self.kept |= {r.name: r.dtype for r in self.running if r.name not in self.targets}

    def _find_targets(self, body: Sequence[Staged]) -> Iterator[tuple[str, tuple[str, Dim]]]:
        """Where prefixes are stored as they are, at neighbouring places of memory that is not read here."""
        stores = [s for s in body if isinstance(s, Store)]
        for run in self.running:
            for s in stores:
                alone = s.buffer not in self.read and sum(other.buffer == s.buffer for other in stores) == 1
                if run.combine in RUNNING and s.value == Name(run.name, run.dtype) and alone and self._is_along(s.at):
                    yield run.name, (s.buffer, s.at)
                    break

    def _is_along(self, at: Dim) -> bool:
        return step(at, self.index) == 1 and not at.symbols() & self.bound

    def source(self, run: Running, part: Sequence[Staged]) -> tuple[str, Dim] | None:
        """Where all that a prefix joins are neighbours in memory, if they are and its stage does nothing else."""
        if len(part) != 2 or not isinstance(part[0], Let) or run.value != Name(part[0].name, run.dtype):
            return None
        value = part[0].value
        if not isinstance(value, Load) or part[0].name in self.kept or not self._is_along(value.at):
            return None
        return value.buffer, value.at

    def is_stored(self, s: Staged) -> bool:
        """Whether a store was done by the prefix that it stores."""
        return isinstance(s, Store) and isinstance(s.value, Name) and self.targets.get(s.value.name) == (s.buffer, s.at)

    def needed(self, number: int) -> list[Let | Running]:
        """What a stage uses of earlier ones."""
        part = [s for s in self.parts[number] if not self.is_stored(s)]
        names = _used(part) - {s.name for s in part if isinstance(s, Let)}
        earlier = [s for p in self.parts[:number] for s in p]
        return [s for s in earlier if isinstance(s, Let | Running) and s.name in names]

    def _carried(self) -> list[Let]:
        """What a later stage uses of an earlier one, but for elements that nobody writes: they are read again."""
        found = []
        for position, part in enumerate(self.parts):
            later = {name for p in self.parts[position + 1 :] for name in _used(p)}
            for s in part:
                if isinstance(s, Let) and s.name in later and not self._can_be_read_again(s.value):
                    found.append(s)
        return found

    def _can_be_read_again(self, expr: Expr) -> bool:
        return isinstance(expr, Load) and expr.buffer not in self.written and not (expr.at.symbols() & self.bound)


def _is_short(start: Dim, stop: Dim) -> bool:
    turns = (stop - start).static
    return turns is not None and turns <= SHORT


def stages(body: Sequence[Statement]) -> list[list[Staged]]:
    """A body cut behind each elementary function and what runs along; fewer than two parts: nothing is to be cut."""
    parts: list[list[Staged]] = [[]]
    for statement in body:
        if not isinstance(statement, Let | Store | Running):
            return []
        if (
            isinstance(statement, Running)
            and len(parts) > 1
            and not parts[-1]
            and not isinstance(parts[-2][-1], Running)
        ):
            parts.pop()  # what an elementary function gives runs along
        parts[-1].append(statement)
        if isinstance(statement, Running) or (isinstance(statement, Let) and _is_heavy(statement.value)):
            parts.append([])
    *parts, rest = parts
    if parts and not isinstance(parts[-1][-1], Running):
        parts[-1] += rest
        return parts
    return [*parts, rest]


def _is_heavy(expr: Expr) -> bool:
    return isinstance(expr, Apply) and _HEAVY.search(expr.text) is not None


def _used(part: Sequence[Staged]) -> set[str]:
    """The names that statements mention."""
    names = {name for s in part if not isinstance(s, Running) for name in _names(s.value)}
    names |= {name for s in part if isinstance(s, Running) for value in s.values for name in _names(value)}
    return names | {name for s in part for name in (s.at.symbols() if isinstance(s, Store) else ())}


def _names(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Name):
        yield expr.name
    elif isinstance(expr, (Load, Position)):
        yield from expr.at.symbols()  # a place that the program computed
    elif isinstance(expr, Apply):
        for argument in expr.args:
            yield from _names(argument)
