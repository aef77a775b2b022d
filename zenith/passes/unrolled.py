"""Unrolled loops: a body that a Python loop wrote into a graph many times, where a loop of the program has it once.

Nothing is recorded while tracing: turns of a loop are operations of the same lines, primitives and types that come
again and again in the same order. Parameters and captured arrays may differ from turn to turn, as indices and the
weights of layers do.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zenith.errors import SourceLine
from zenith.ir.graph import Graph, Node
from zenith.ir.lowering import Data

MANY = 16  # turns that are worth a word: models with a dozen layers are as people write them
CANDIDATES = 8  # periods that are tried: a body may have an operation as often as that

Word = tuple[str, SourceLine, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A body that stands in a graph ``turns`` times: its lines, its number of operations, and whether a turn reads
    what the one before computed.
    """

    lines: tuple[SourceLine, ...]
    operations: int
    turns: int
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
            if before is None or before.turns * before.operations < loop.turns * loop.operations:
                found[loop.lines] = loop
    return sorted(found.values(), key=lambda loop: -loop.turns * loop.operations)


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
    places: dict[Word, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    at = 0
    while at < len(words):
        period, turns = _repeated(words, places[words[at]], at)
        if period > 1:
            first, second = ({*numbers[at + turn * period : at + (turn + 1) * period]} for turn in (0, 1))
            lines = tuple(
                sorted({word[1] for word in words[at : at + period]}, key=lambda line: (line.file, line.line))
            )
            yield Unrolled(lines, period, turns, any(a.node in first for n in second for a in graph.args(n)))
        at += max(1, period * turns)


def _word(node: Node) -> Word:
    """What is the same in all turns."""
    assert node.line is not None
    return node.primitive.name, node.line, tuple(map(str, node.types))


def _repeated(words: Sequence[Word], places: Sequence[int], at: int) -> tuple[int, int]:
    """The shortest period with which words repeat from a place on, and how often; zeros when it is not often."""
    following = bisect_right(places, at)
    for place in places[following : following + CANDIDATES]:
        period = place - at
        if at + period * MANY > len(words) or words[at + period * (MANY - 1)] != words[at]:
            continue
        length = 0
        while at + period + length < len(words) and words[at + length] == words[at + period + length]:
            length += 1
        if 1 + length // period >= MANY:
            return period, 1 + length // period
    return 0, 0
