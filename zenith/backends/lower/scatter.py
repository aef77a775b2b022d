"""Scatter: a copy of the first operand, then the updates one by one in index order, by one thread (repeatable)."""

from __future__ import annotations

from zenith.backends.kernel import Apply, Kernel, Load, Loop, Store
from zenith.backends.lower.elements import IndexBuilder, decode
from zenith.backends.lower.nest import Interface, scalar_cost
from zenith.backends.lower.overwrite import copy_kernel, with_used_buffers
from zenith.ir.dims import dim, product, row_major, symbol
from zenith.ir.graph import Graph


def lower_scatter(body: Graph) -> list[Kernel]:
    """The copy, and one task that adds."""
    face = Interface.of(body)
    ((out,), (result,)) = face.outputs, body.outputs
    x, updates, *indices = body.args(result.node)
    e = face.builder()
    u = e.fresh("u")
    e.open(u)
    index = decode(symbol(u), updates.shape)
    builder = IndexBuilder(e, body.node(result.node).line, ())
    rank = len(indices[0].shape)
    places = [builder.checked(e.element(v, index[:rank]), n) for v, n in zip(indices, x.shape, strict=False)]
    at = row_major(x.shape, (*places, *index[rank:]))
    value = e.element(updates, index)
    e.append(Store(out, at, Apply("x + y", (Load(out, at, result.dtype), value), result.dtype)))
    e.append(Loop(u, dim(0), product(updates.shape), False, e.close()))
    adding = face.kernel(dim(1), product(updates.shape) * scalar_cost(body), e)
    return [copy_kernel(face, x), with_used_buffers(adding)]
