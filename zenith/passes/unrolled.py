"""Unrolled loops: a body that a Python loop wrote into a graph many times, where a loop of the program has it once.

Nothing is recorded while tracing: iterations of a loop are operations of the same lines, primitives and types that
repeat in the same order. Parameters and captured arrays may differ between iterations, as indices and the weights of
layers do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zenith.errors import SourceLine
from zenith.ir.graph import Graph, Node
from zenith.ir.lowering import Data

MANY = 16  # iterations that are reported: models with a dozen layers are as people write them
CANDIDATES = 8  # periods that are tried: the most occurrences of one operation in a body

Word = tuple[str, SourceLine, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A body that a graph repeats ``iterations`` times: its lines, its number of operations, and whether an iteration
    reads results of the one before.
    """

    lines: tuple[SourceLine, ...]
    operations: int
    iterations: int
    carries: bool


def unrolled(graph: Graph) -> list[Unrolled]:
    """The unrolled loops of a traced graph, the one with most operations first, and for the same lines one only.

    A module's layers are as its author wrote them: a graph with weights has none.

    >>> from zenith.ir.text import parse
    >>> unrolled(parse("def f(x: f32[n]) -> (f32[n]):\\n    a = exp(x)\\n    return (a,)"))
    []
    """
    found: dict[tuple[SourceLine, ...], Unrolled] = {}
    for body in [] if graph.weights else _graphs(graph):
        for loop in _loops(body):
            before = found.get(loop.lines)
            if before is None or before.iterations * before.operations < loop.iterations * loop.operations:
                found[loop.lines] = loop
    return sorted(found.values(), key=lambda loop: -loop.iterations * loop.operations)


def _graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for _, node in graph.nodes():
        for body in node.bodies:
            yield from _graphs(body)


def _loops(graph: Graph) -> Iterator[Unrolled]:
    numbers = [
        n for n, node in graph.nodes() if not isinstance(node.primitive.lowering, Data) and node.line is not None
    ]
    words = [_word(graph.node(n)) for n in numbers]
    positions: dict[Word, list[int]] = {}
    for position, word in enumerate(words):
        positions.setdefault(word, []).append(position)
    at = 0
    while at < len(words):
        period, turns = _repeated(words, positions[words[at]], at)
        if period > 1:
            first, second = ({*numbers[at + i * period : at + (i + 1) * period]} for i in (0, 1))
            lines = tuple(
                sorted({word[1] for word in words[at : at + period]}, key=lambda line: (line.file, line.line))
            )
            yield Unrolled(lines, period, turns, any(a.node in first for n in second for a in graph.args(n)))
        at += max(1, period * turns)


def _word(node: Node) -> Word:
    """The properties of an operation that are the same in all iterations."""
    assert node.line is not None
    return node.primitive.name, node.line, tuple(map(str, node.types))


def _repeated(words: Sequence[Word], positions: Sequence[int], at: int) -> tuple[int, int]:
    """The shortest period with which words repeat from ``at`` on, and how often; zeros when it is fewer than MANY."""
    following = bisect_right(positions, at)
    for position in positions[following : following + CANDIDATES]:
        period = position - at
        if at + period * MANY > len(words) or words[at + period * (MANY - 1)] != words[at]:
            continue
        length = 0
        while at + period + length < len(words) and words[at + length] == words[at + period + length]:
            length += 1
        if 1 + length // period >= MANY:
            return period, 1 + length // period
    return 0, 0
