"""Products of complex numbers: over axes by halves, and up to each element by steps that double.

Each element of a pair's product needs both parts of both factors, which no reduction or prefix of kernels combines. So a
loop multiplies each element of a row by one at a distance, which is halved or doubled from pass to pass: there are as
many passes over the row as its length has binary digits, each in parallel, and the error grows with their number only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zenith.ir.builder import Builder
from zenith.ir.dims import product
from zenith.ir.graph import Graph, Value
from zenith.ir.types import int64


def product_over(b: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The product over some axes, 1 of nothing: the first half of what is left by the second, an odd one as it is."""
    kept = [a for a in range(len(x.shape)) if a not in axes]
    outer = tuple(x.shape[a] for a in kept)
    count = product(x.shape[a] for a in axes)
    rows = b.reshape(b.transpose(x, axes=(*kept, *axes)), shape=(*outer, count))
    rows = b.concat(rows, b.full(1.0, x.dtype, (*outer, 1)), axis=len(outer))  # never empty

    def halve(b: Builder, left: Value, place: Value) -> tuple[Value, Value, Value]:
        half = b.floor_divide(b.add(left, 1), 2)
        partner = b.add(place, b.broadcast_scalar(half, place.shape))
        return half, partner, b.lt(partner, b.broadcast_scalar(left, place.shape))

    found = _passes(b, rows, b.size(value=count + 1), lambda b, left: b.gt(left, 1), halve)
    shape = (*outer, 1)
    first = b.slice(found, start=(0,) * len(shape), stop=shape, step=(1,) * len(shape))
    return b.reshape(first, shape=outer)


def products_so_far(b: Any, x: Any, axis: int, reverse: bool) -> Any:
    """The product of all elements up to each one: by the one before, then by that two before, four before, and so on."""
    order = (*(a for a in range(len(x.shape)) if a != axis), axis)
    rows = b.transpose(x, axes=order)
    rows = b.reverse(rows, axes=(len(order) - 1,)) if reverse else rows
    count = x.shape[axis]

    def double(b: Builder, step: Value, place: Value) -> tuple[Value, Value, Value]:
        partner = b.sub(place, b.broadcast_scalar(step, place.shape))
        return b.mul(step, 2), partner, b.ge(partner, 0)

    found = _passes(b, rows, b.literal(value=1, dtype=int64), lambda b, step: b.lt(step, b.size(value=count)), double)
    found = b.reverse(found, axes=(len(order) - 1,)) if reverse else found
    return b.transpose(found, axes=tuple(order.index(a) for a in range(len(order))))


Going = Callable[[Builder, Value], Value]  # whether there is one more pass
Pairing = Callable[[Builder, Value, Value], tuple[Value, Value, Value]]  # what is next, each place's partner, if any


def _passes(b: Any, rows: Any, start: Any, going: Going, pairing: Pairing) -> Any:
    """Rows after passes that multiply elements by their partners; bodies are of real numbers, both parts apart."""
    carried = (start, b.real(rows), b.imag(rows))
    condition, inner, (state, _, _) = _started("more", carried)
    condition.set_outputs([going(inner, state)])
    body = _multiply(carried, pairing)
    _, *found = b.while_loop(*carried, condition=condition, body=body, condition_captured=0, body_captured=0)
    return b.complex(*found)


def _started(name: str, like: Sequence[Value]) -> tuple[Graph, Builder, list[Value]]:
    """A body that carries a number for the distance, and both parts of the rows."""
    graph, words = Graph(name), ("state", "re", "im")
    return graph, Builder(graph), [graph.add_input(v.type, word) for v, word in zip(like, words, strict=True)]


def _multiply(like: Sequence[Value], pairing: Pairing) -> Graph:
    """One pass: elements times their partners; those that have none stay."""
    graph, b, (state, re, im) = _started("multiply", like)
    last = len(re.shape) - 1
    place = b.iota(size=re.shape[-1], dtype=int64)
    following, partner, paired = pairing(b, state, place)
    other_re, other_im = (b.take(part, b.where(paired, partner, place), axis=last) for part in (re, im))
    real = b.sub(b.mul(re, other_re), b.mul(im, other_im))
    imag = b.add(b.mul(re, other_im), b.mul(im, other_re))
    everywhere = b.broadcast(paired, shape=re.shape, axes=(last,))
    graph.set_outputs([following, b.where(everywhere, real, re), b.where(everywhere, imag, im)])
    return graph
