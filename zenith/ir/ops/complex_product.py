"""Products of complex numbers: over axes by halving; prefixes, with recurrences, by doubling distances.

Each part of a product needs both parts, real and imaginary, of both factors, which no reduction or prefix of kernels
combines. So a loop joins each element of a row with one at a distance, which is halved or doubled from pass to pass:
it takes as many parallel passes as the row's length has binary digits, and the error grows with their number only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from zenith.ir.builder import Builder, Values
from zenith.ir.dims import Dim, DimLike, product
from zenith.ir.graph import Graph, Value
from zenith.ir.types import int64

MANY = 16  # elements that are joined in one step, without a loop: a power of two

Condition = Callable[[Builder, Value], Value]  # whether there is one more pass, from the distance
Pairing = Callable[[Builder, Value, Value], tuple[Value, Value, Value]]  # next distance, partners, whether there is one
Pair = tuple[Value, Value]  # a real and an imaginary part: the operations written here are real
Join = Callable[[Builder, Sequence[Pair], Sequence[Pair]], Sequence[Pair]]  # elements of each row with their partners


def product_over(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """The product over some axes, 1 for none: repeatedly the first half of a row times its second, an odd one as is."""
    outer_axes = [a for a in range(len(x.shape)) if a not in axes]
    outer = tuple(x.shape[a] for a in outer_axes)
    count = product(x.shape[a] for a in axes)
    rows = b.reshape(b.transpose(x, axes=(*outer_axes, *axes)), shape=(*outer, count))
    for _ in range(2):
        rows, count = _joined_by_many(b, rows)
    rows = b.concat(rows, b.full(1.0, x.dtype, (*outer, 1)), axis=len(outer))  # never empty

    def halve(b: Builder, left: Value, index: Value) -> tuple[Value, Value, Value]:
        half = b.floor_divide(b.add(left, b.literal(value=1, dtype=int64)), b.literal(value=2, dtype=int64))
        partner = b.add(index, b.broadcast_scalar(half, index.shape))
        return half, partner, b.lt(partner, b.broadcast_scalar(left, index.shape))

    more_than_one: Condition = lambda b, left: b.gt(left, b.literal(value=1, dtype=int64))  # noqa: E731
    (found,) = _passes(b, [rows], b.size(value=count + 1), more_than_one, halve, _multiply)
    shape = cast(tuple[DimLike, ...], (*outer, 1))
    return b.reshape(b.slice(found, start=(0,) * len(shape), stop=shape, step=(1,) * len(shape)), shape=outer)


def _joined_by_many(b: Builder, rows: Value) -> tuple[Value, Dim]:
    """Rows of a sixteenth: products of ``MANY`` elements, as far apart as they are many, and what is left over."""
    *outer, count = rows.shape
    each, last = count // MANY, len(outer)
    zeros, steps = (0,) * last, (1,) * (last + 1)

    def part(start: Dim, stop: Dim) -> Value:
        return b.slice(rows, start=(*zeros, start), stop=(*outer, stop), step=steps)

    parts = [part(each * number, each * (number + 1)) for number in range(MANY)]
    while len(parts) > 1:
        parts = [b.mul(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    found = b.concat(parts[0], part(each * MANY, count), axis=last)
    return found, found.shape[-1]


def products_so_far(b: Builder, x: Value, axis: int, reverse: bool) -> Value:
    """The product of all elements up to each one."""
    return _so_far(b, [x], axis, reverse, _multiply)


def recurrence_so_far(b: Builder, x: Value, z: Value, axis: int, reverse: bool) -> Value:
    """``y[i] = x[i] * y[i - 1] + z[i]``: neighbours joined are a factor and a term too (Blelloch, 1990)."""
    return _so_far(b, [x, z], axis, reverse, _compose)


def _times(b: Builder, x: Pair, y: Pair) -> Pair:
    (p, q), (r, s) = x, y
    return b.sub(b.mul(p, r), b.mul(q, s)), b.add(b.mul(p, s), b.mul(q, r))


def _multiply(b: Builder, rows: Sequence[Pair], partners: Sequence[Pair]) -> Sequence[Pair]:
    return [_times(b, rows[0], partners[0])]


def _compose(b: Builder, rows: Sequence[Pair], partners: Sequence[Pair]) -> Sequence[Pair]:
    (real, imag), (x, y) = _times(b, rows[0], partners[1]), rows[1]
    return [_times(b, rows[0], partners[0]), (b.add(real, x), b.add(imag, y))]


def _so_far(b: Builder, operands: Values, axis: int, reverse: bool, join: Join) -> Value:
    """The last operand, joined with the element before, then with the one two before, four before, and so on."""
    count = operands[0].shape[axis]
    order = (*(a for a in range(len(operands[0].shape)) if a != axis), axis)
    rows = [b.transpose(x, axes=order) for x in operands]
    rows = [b.reverse(r, axes=(len(order) - 1,)) for r in rows] if reverse else rows

    def double(b: Builder, step: Value, index: Value) -> tuple[Value, Value, Value]:
        partner = b.sub(index, b.broadcast_scalar(step, index.shape))
        return b.add(step, step), partner, b.ge(partner, b.zeros_like(partner))

    shorter: Condition = lambda b, step: b.lt(step, b.cast(b.size(value=count), dtype=int64))  # noqa: E731
    found = _passes(b, rows, b.literal(value=1, dtype=int64), shorter, double, join)[-1]
    found = b.reverse(found, axes=(len(order) - 1,)) if reverse else found
    return b.transpose(found, axes=tuple(order.index(a) for a in range(len(order))))


def _passes(b: Builder, rows: Values, start: Value, more: Condition, pairing: Pairing, join: Join) -> Values:
    """Rows after passes that join elements with their partners; the loop carries their real and imaginary parts."""
    carried = (start, *(part(r) for r in rows for part in (b.real, b.imag)))
    condition, inner, (distance, *_) = _started("more", carried)
    condition.set_outputs([more(inner, distance)])
    body = _pass(carried, pairing, join)
    _, *found = cast(
        tuple[Value, ...],
        b.while_loop(*carried, condition=condition, body=body, condition_captured=0, body_captured=0, index="", most=0),
    )
    return [b.complex(*pair) for pair in zip(found[::2], found[1::2], strict=True)]


def _started(name: str, like: Sequence[Value]) -> tuple[Graph, Builder, list[Value]]:
    """A body that carries a number for the distance, and real and imaginary part of each row."""
    graph = Graph(name)
    words = ["distance", *(f"{word}{i // 2}" for i, word in enumerate(["re", "im"] * (len(like) // 2)))]
    return graph, Builder(graph), [graph.add_input(v.type, word) for v, word in zip(like, words, strict=True)]


def _pass(like: Sequence[Value], pairing: Pairing, join: Join) -> Graph:
    """One pass: elements joined with their partners; those that have none stay."""
    graph, b, (distance, *parts) = _started("join", like)
    last = len(parts[0].shape) - 1
    index = b.iota(size=parts[0].shape[-1], dtype=int64)
    following, partner, paired = pairing(b, distance, index)
    others = [b.take(p, b.where(paired, partner, index), axis=last) for p in parts]
    rows, partners = (list(zip(p[::2], p[1::2], strict=True)) for p in (parts, others))
    joined = [part for pair in join(b, rows, partners) for part in pair]
    everywhere = b.broadcast(paired, shape=parts[0].shape, axes=(last,))
    graph.set_outputs([following, *(b.where(everywhere, new, old) for new, old in zip(joined, parts, strict=True))])
    return graph
