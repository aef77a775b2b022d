"""Overwrite: a copy of the first operand, then a part of it written over, elementwise work on the part included.

Both are kernels, since the copy is left out where the first operand's memory becomes the result's: see
:mod:`zenith.backends.in_place`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from zenith.backends.kernel import Kernel, Store
from zenith.backends.lower.elements import ElementBuilder, Index, IndexBuilder
from zenith.backends.lower.nest import Interface, element_loops, find_loops, scalar_cost
from zenith.backends.memory_effects import buffers_of
from zenith.ir.dims import Dim, dim, product, row_major
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Overwrite


def lower_overwrite(body: Graph) -> list[Kernel]:
    """The copy, and the writing of the part."""
    face, (result,) = Interface.of(body), body.outputs
    x, part, *_ = body.args(result.node)
    return [copy_kernel(face, x), _writing(face, result, part)]


def copy_kernel(face: Interface, x: Value) -> Kernel:
    """A value, written to the result."""
    (out,) = face.outputs

    def visit(e: ElementBuilder, index: Index) -> Dim:
        at = row_major(x.shape, index)
        e.append(Store(out, at, e.element(x, index)))
        return at

    return replace(_elementwise(face, x.shape, visit, dim(2)), doc="copy", operations=dim(0))


def _writing(face: Interface, result: Value, part: Value) -> Kernel:
    body, (out,) = face.body, face.outputs
    node, args = body.node(result.node), body.args(result.node)
    assert isinstance(node.primitive.lowering, Overwrite)
    place = node.primitive.lowering.place

    def visit(e: ElementBuilder, index: Index) -> Dim:
        read = [lambda *i, a=a: e.element(a, tuple(map(dim, i))) for a in args]
        found = place(IndexBuilder(e, node.line, index), index, read, [a.type for a in args], node.params)
        at = row_major(result.shape, tuple(map(dim, found)))
        e.append(Store(out, at, e.element(part, index)))
        return at

    return _elementwise(face, part.shape, visit, dim(scalar_cost(body)))


def _elementwise(
    face: Interface, space: Sequence[Dim], visit: Callable[[ElementBuilder, Index], Dim], cost: Dim
) -> Kernel:
    """A kernel that visits the elements of a space, a task each; ``visit`` says which place it wrote."""
    written: list[Dim] = []
    groups = find_loops(face, space, lambda e, index: written.append(visit(e, index)), lambda index: written)
    e = face.builder()
    element_loops(e, space, groups, lambda index: written.append(visit(e, index)))
    return with_used_buffers(face.kernel(product(space), cost, e))


def with_used_buffers(kernel: Kernel) -> Kernel:
    """A kernel that knows nothing of buffers that it does not touch."""
    used = buffers_of(kernel.body)
    return replace(kernel, buffers=tuple(b for b in kernel.buffers if b.name in used))
