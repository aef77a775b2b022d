"""Products of complex numbers over axes, by halves.

Each element of a pair's product needs both parts of both factors, which no reduction of kernels combines. So a loop
multiplies the first half of a row by the second, then that half's halves, until one element is left: as many passes
over the row as its length has binary digits, each in parallel, and an error that grows with their number only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zenith.ir.builder import Builder
from zenith.ir.dims import product
from zenith.ir.graph import Graph, Value
from zenith.ir.types import int64


def product_over(b: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The product over some axes, 1 of nothing."""
    kept = [a for a in range(len(x.shape)) if a not in axes]
    outer = tuple(x.shape[a] for a in kept)
    count = product(x.shape[a] for a in axes)
    rows = b.reshape(b.transpose(x, axes=(*kept, *axes)), shape=(*outer, count))
    rows = b.concat(rows, b.full(1.0, x.dtype, (*outer, 1)), axis=len(outer))  # never empty
    start = (b.size(value=count + 1), b.real(rows), b.imag(rows))
    _, *found = b.while_loop(*start, condition=_condition(start), body=_body(start), condition_captured=0,
                             body_captured=0)  # fmt: skip
    shape = (*outer, 1)
    first = [b.slice(f, start=(0,) * len(shape), stop=shape, step=(1,) * len(shape)) for f in found]
    return b.complex(*(b.reshape(f, shape=outer) for f in first))


def _started(name: str, like: Sequence[Value]) -> tuple[Graph, Builder, list[Value]]:
    """A body that carries how many elements of a row are left, and both parts of the rows."""
    graph = Graph(name)
    words = ("live", "re", "im")
    return graph, Builder(graph), [graph.add_input(v.type, word) for v, word in zip(like, words, strict=True)]


def _condition(like: Sequence[Value]) -> Graph:
    graph, b, (live, _, _) = _started("condition", like)
    graph.set_outputs([b.gt(live, 1)])
    return graph


def _body(like: Sequence[Value]) -> Graph:
    """Elements of the first half times those of the second; an odd one out stays as it is."""
    graph, b, (live, re, im) = _started("halve", like)
    count, last = re.shape[-1], len(re.shape) - 1
    half = b.floor_divide(b.add(live, 1), 2)
    place = b.iota(size=count, dtype=int64)
    partner = b.add(place, b.broadcast_scalar(half, (count,)))
    paired = b.lt(partner, b.broadcast_scalar(live, (count,)))
    other_re, other_im = (b.take(part, b.where(paired, partner, place), axis=last) for part in (re, im))
    real = b.sub(b.mul(re, other_re), b.mul(im, other_im))
    imag = b.add(b.mul(re, other_im), b.mul(im, other_re))
    everywhere = b.broadcast(paired, shape=re.shape, axes=(last,))
    graph.set_outputs([half, b.where(everywhere, real, re), b.where(everywhere, imag, im)])
    return graph
