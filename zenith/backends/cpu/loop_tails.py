"""Tails: of a loop along rows that computes elementary functions, what whole vectors leave is a loop of its own.

LLVM's vectoriser computes the last iterations of a loop in narrower vectors, and then one by one. Along short rows of
elementary functions this takes longer than all the rest. So the text of a kernel gets two loops for such a one: the
first makes as many iterations as whole vectors do, the other, the *tail*, is computed in masked vectors, as metadata
demands (:mod:`zenith.backends.cpu.loop_metadata`); LLVM alone folds the tail into all vectors or none. Loops over the
same rows in this kernel go the same way. Where there is little to compute, masks cost more than they save. Measured on
AMD EPYC: a softmax over rows of 30 elements takes half of the time, one over rows of 100 four fifths.

>>> print(with_tails('''
...     for j in range(0, n):
...         out[j] = exp(x[j])'''.strip("\\n")))
    for j in range(0, max(n, 0) & -64):
        out[j] = exp(x[j])
    for j in tail(max(n, 0) & -64, n):
        out[j] = exp(x[j])
<BLANKLINE>
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from zenith.backends.cpu.loop_fission import HEAVY

VECTORS = 64  # iterations that whole vectors make: four of float32, of which LLVM interleaves the computations
FEW = 16  # iterations of a loop that LLVM unrolls where it knows their number
_FROM_0 = re.compile(r"( *)for (\w+) in range\(0, (.+)\):")
_NESTED = re.compile(r" *(for|while|if|else)\b")


class _Loop(NamedTuple):
    """A loop without another one, or a branch, inside: ``first`` to before ``end`` are the lines of its body."""

    indent: str
    variable: str
    stop: str
    first: int
    end: int


def with_tails(text: str) -> str:
    """The text of a kernel with tails for such loops."""
    lines = text.splitlines()
    loops = {loop.first - 1: loop for loop in _innermost(lines)}
    heavy = {loop.stop for loop in loops.values() if any(map(HEAVY.search, lines[loop.first : loop.end]))}
    written, at = list[str](), 0
    while at < len(lines):
        loop = loops.get(at)
        if loop is None or loop.stop not in heavy or not _has_tail(loop.stop):
            written.append(lines[at])
            at += 1
            continue
        whole, body = f"max({loop.stop}, 0) & -{VECTORS}", lines[loop.first : loop.end]
        written += [f"{loop.indent}for {loop.variable} in range(0, {whole}):", *body]
        written += [f"{loop.indent}for {loop.variable} in tail({whole}, {loop.stop}):", *body]
        at = loop.end
    return "\n".join(written) + "\n"


def _innermost(lines: list[str]) -> Iterator[_Loop]:
    for number, line in enumerate(lines):
        match = _FROM_0.fullmatch(line)
        if match is not None:
            inside, end = match[1] + "    ", number + 1
            while end < len(lines) and lines[end].startswith(inside):
                end += 1
            if not any(map(_NESTED.match, lines[number + 1 : end])):
                yield _Loop(match[1], match[2], match[3], number + 1, end)


def _has_tail(stop: str) -> bool:
    """Whether vectors may leave iterations of so many."""
    return not stop.isdigit() or (int(stop) > FEW and int(stop) % VECTORS != 0)
