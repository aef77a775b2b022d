"""Programs made of attention as people write it: scores under masks, weights by one softmax or another, and products.

Scores and weights form a chain along the keys (``tests/program_chains.py``), which may do anything else with them, too:
so they are read by several products, used twice, or returned. Queries, keys and values are chains along their features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.program_chains import Chain, exponentials, length_of, move, softmax
from tests.program_growth import Program
from zenith.ir.dims import Dim
from zenith.ir.graph import Value
from zenith.ir.types import bool_, float32, int64

TOKENS = (1, 2, 3, 5, 8, 16, 17, 33)
FEATURES = (1, 2, 4, 8, 16)
HEADS = (1, 2, 3)
FILLS = (-math.inf, -math.inf, -1e9, -3e4, 0.0)  # the score where a query does not see a key


@dataclass(frozen=True)
class _Attention:
    """Chains of queries, keys, values and results along their features, and of scores along the keys."""

    program: Program
    queries: Chain
    keys: Chain
    values: Chain
    results: Chain
    scores: Chain


def begin_attention(program: Program) -> Callable[[], None]:
    """Queries, keys and values of some heads; the function returned proposes a step of attention, or any operation."""
    lead, queries, keys, features, others = _lengths(program)
    dtype = program.one([float32] * 6 + [t for t in program.dtypes if t.is_float])

    def chain(*shape: Dim) -> Chain:
        return Chain(program, dtype, (*lead, *shape), (len(lead) + 1,))

    block = _Attention(
        program, chain(queries, features), chain(keys, features), chain(keys, others), chain(queries, others),
        chain(queries, keys),
    )  # fmt: skip
    for operand in (block.queries, block.keys, block.values):
        program.input(dtype, operand.shape)
    _score(block)
    steps = [step for step, share in STEPS.items() for _ in range(share)]
    return lambda: program.one(steps)(block)


def _lengths(program: Program) -> tuple[list[Dim], Dim, Dim, Dim, Dim]:
    """Sizes of leading axes, how many queries and keys there are, and how many features these and values have."""
    while True:
        program.sizes.clear()
        lead = [length_of(program, HEADS, 0.5) for _ in range(program.rng.integers(0, 3))]
        queries = length_of(program, TOKENS, 0.4)
        keys = queries if program.chance(0.5) else length_of(program, TOKENS, 0.4)
        features = length_of(program, FEATURES, 0.1)
        others = features if program.chance(0.7) else length_of(program, FEATURES, 0.1)
        most = max((queries, keys, features, others), key=lambda n: n.evaluate(program.sizes))
        if program.elements((*lead, most, most)) <= program.extent.most:
            return lead, queries, keys, features, others


def _transposed(program: Program, x: Value) -> Value:
    rank = len(x.shape)
    return program.emit("transpose", x, axes=(*range(rank - 2), rank - 1, rank - 2))


# --- steps -----------------------------------------------------------------------------------------------------------


def _score(block: _Attention) -> Value:
    """Products of queries and keys, scaled before or after, sometimes with a bias."""
    program, x = block.program, block.queries.array()
    scale = block.queries.like(x, 0.5)
    before = program.chance(0.3)
    x = program.emit("mul", x, scale) if before else x
    found = program.emit("matmul", x, _transposed(program, block.keys.array()))
    if not before and program.chance(0.8):
        found = program.emit("mul", found, block.scores.like(found, 0.25))
    if program.chance(0.25):
        return program.emit("add", found, program.find(found.dtype, found.shape))
    return found


def _mask(block: _Attention, x: Value | None = None) -> Value:
    """Scores with a number where a query does not see a key."""
    program, x = block.program, x or block.scores.array()
    seen = program.one((_causal, _padding, _any_mask))(block)
    return program.emit_any("where", seen, x, block.scores.like(x, float(program.one(FILLS))))


def _whole(block: _Attention) -> None:
    """All of it in its usual order, which one kernel computes where nothing else reads values in between."""
    program, before = block.program, len(block.program.values)
    x = _score(block)
    x = _mask(block, x) if program.chance(0.5) else x
    program.emit("matmul", softmax(block.scores, x), block.values.array())
    if program.chance(0.7):
        del program.values[before:-1]


def _causal(block: _Attention) -> Value:
    program, shape = block.program, block.scores.shape
    rank = len(shape)
    positions = [program.emit("iota", size=shape[axis], dtype=int64) for axis in (rank - 2, rank - 1)]
    query, key = (
        program.emit("broadcast", position, shape=shape, axes=(axis,))
        for position, axis in zip(positions, (rank - 2, rank - 1), strict=True)
    )
    return program.emit("ge", query, key)


def _padding(block: _Attention) -> Value:
    """The same keys for all queries."""
    program, shape = block.program, block.scores.shape
    axes = (len(shape) - 1,) if program.chance(0.5) else (*range(len(shape) - 2), len(shape) - 1)
    keys = program.find(bool_, [shape[a] for a in axes])
    return program.emit("broadcast", keys, shape=shape, axes=axes)


def _any_mask(block: _Attention) -> Value:
    return block.program.find(bool_, block.scores.shape)


def _weigh(block: _Attention) -> None:
    softmax(block.scores, block.scores.array())


def _weigh_otherwise(block: _Attention) -> None:
    """Weights that need not add up to one, or none where no key is seen."""
    program, chain = block.program, block.scores
    numbers = exponentials(chain, chain.array())
    total = chain.fold("reduce_sum", numbers)
    if program.chance(0.5):
        total = program.emit("add", total, chain.like(total, 1))
    else:
        none = program.emit("eq", total, chain.like(total, 0))
        total = program.emit("where", none, chain.like(total, 1), total)
    program.emit("div", numbers, chain.spread(total))


def _drop(block: _Attention) -> None:
    program, x = block.program, block.scores.array()
    scaled = program.emit("mul", x, block.scores.like(x, 1.25))
    program.emit("where", _any_mask(block), scaled, block.scores.like(x, 0))


def _values(block: _Attention) -> None:
    block.program.emit("matmul", block.scores.array(), block.values.array())


def _cotangents(block: _Attention) -> None:
    """The backward pass as it is written by hand: cotangents of weights and of scores."""
    program, chain = block.program, block.scores
    weights = chain.array()
    cotangents = program.emit("matmul", block.results.array(), _transposed(program, block.values.array()))
    delta = chain.fold("reduce_sum", program.emit("mul", weights, cotangents))
    program.emit("mul", weights, program.emit("sub", cotangents, chain.spread(delta)))


def _backward(block: _Attention) -> None:
    """What the keys, or the queries, receive through scores."""
    program, x = block.program, block.scores.array()
    if program.chance(0.5):
        program.emit("matmul", _transposed(program, x), block.queries.array())
    else:
        program.emit("matmul", x, block.keys.array())


def _any_move(block: _Attention) -> None:
    chains: Sequence[Chain] = (block.scores, block.scores, block.queries, block.keys, block.values, block.results)
    move(block.program.one(chains))


STEPS: dict[Callable[[_Attention], object], int] = {
    _score: 2, _mask: 3, _whole: 5, _weigh: 4, _weigh_otherwise: 1, _drop: 1, _values: 4, _cotangents: 1, _backward: 1,
    _any_move: 4,
}  # fmt: skip
