"""Printing kernels for the CPU: long chains of elementary functions are computed in stages.

One element's chain of operations is thousands of cycles deep in latency and a core looks only some hundred
instructions ahead, so a loop over a long chain waits for its own results. Cut into stages, each a short loop over the
same ``STRIP`` elements with what they hand on kept in the first-level cache, the chains of many elements overlap:
sigmoid(exp(tanh(gelu(x)))) took 2.35 ns an element in one loop and the sum of its parts in four.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from zenith.backends.emit import Printer
from zenith.backends.kernel import Apply, Expr, Kernel, Let, Load, Name, Position, Statement, Store
from zenith.backends.scalars import ELEMENTARY

STRIP = 512  # elements of a stage: what it hands on, some arrays of 2 KB, stays in the first-level cache

_HEAVY = re.compile(rf"\b({'|'.join(ELEMENTARY)})\(")


class CpuPrinter(Printer):
    """Prints kernels as scalar Python loops, long lanes loops in stages."""

    def kernel(self, kernel: Kernel) -> str:
        self._scratches = 0
        return super().kernel(kernel)

    def iterate(self, index: str, start: str, stop: str, lanes: bool, body: Sequence[Statement]) -> list[str]:
        parts = stages(body) if lanes else []
        if len(parts) < 2:
            return super().iterate(index, start, stop, lanes, body)
        carried = _carried(parts)
        names: dict[str, str] = {}
        lines: list[str] = []
        for let in carried:
            self._scratches += 1
            names[let.name] = f"staged{self._scratches}"
            lines.append(f"{names[let.name]} = {let.value.dtype}_scratch({STRIP})")
        strip, last = f"{index}_strip", f"{index}_last"
        lines += [f"for {strip} in range({start}, {stop}, {STRIP}):", f"    {last} = min({strip} + {STRIP}, {stop})"]
        for part in parts:
            lines.append(f"    for {index} in range({strip}, {last}):")
            lines += ["        " + line for line in self._stage(part, parts, names, f"{index} - {strip}")]
        return lines

    def _stage(
        self, part: list[Let | Store], parts: list[list[Let | Store]], names: dict[str, str], at: str
    ) -> list[str]:
        """One stage: what it needs is taken from where it was kept, what later stages need is kept."""
        needed = _used(part) - {s.name for s in part if isinstance(s, Let)}
        lines: list[str] = []
        for let in (s for p in parts for s in p if isinstance(s, Let) and s.name in needed):
            kept = names.get(let.name)
            lines += [f"{let.name} = {kept}[{at}]"] if kept else self.statement(let)
        for statement in part:
            lines += self.statement(statement)
            if isinstance(statement, Let) and statement.name in names:
                lines.append(f"{names[statement.name]}[{at}] = {statement.name}")
        return lines


def stages(body: Sequence[Statement]) -> list[list[Let | Store]]:
    """A lanes body cut behind each elementary function; fewer than two parts when there is nothing to cut."""
    parts: list[list[Let | Store]] = [[]]
    for statement in body:
        if not isinstance(statement, (Let, Store)):
            return []
        parts[-1].append(statement)
        if isinstance(statement, Let) and _is_heavy(statement.value):
            parts.append([])
    *parts, rest = parts
    if parts:
        parts[-1] += rest
    return parts


def _is_heavy(expr: Expr) -> bool:
    return isinstance(expr, Apply) and _HEAVY.search(expr.text) is not None


def _carried(parts: list[list[Let | Store]]) -> list[Let]:
    """What a later stage uses of an earlier one, but for elements of arrays that nobody writes: they are read again."""
    written = {s.buffer for part in parts for s in part if isinstance(s, Store)}
    bound = {s.name for part in parts for s in part if isinstance(s, Let)}
    found = []
    for position, part in enumerate(parts):
        later = {name for p in parts[position + 1 :] for name in _used(p)}
        for s in part:
            if isinstance(s, Let) and s.name in later and not _can_be_read_again(s.value, written, bound):
                found.append(s)
    return found


def _can_be_read_again(expr: Expr, written: set[str], bound: set[str]) -> bool:
    return isinstance(expr, Load) and expr.buffer not in written and not (expr.at.symbols() & bound)


def _used(part: Sequence[Let | Store]) -> set[str]:
    """The names that statements mention."""
    return {name for s in part for name in _names(s.value)} | {
        name for s in part for name in (s.at.symbols() if isinstance(s, Store) else ())
    }


def _names(expr: Expr) -> Iterator[str]:
    if isinstance(expr, Name):
        yield expr.name
    elif isinstance(expr, (Load, Position)):
        yield from expr.at.symbols()  # a place that the program computed
    elif isinstance(expr, Apply):
        for argument in expr.args:
            yield from _names(argument)
