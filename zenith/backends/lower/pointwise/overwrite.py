"""Overwrite: a copy of the first operand, then an update of a slice, with the elementwise work on the update.

Both are kernels, since the copy is left out where the result is in the first operand's memory, in place: see
:mod:`zenith.backends.in_place`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from zenith.backends.kernel import Kernel, Store
from zenith.backends.lower.elements import ElementBuilder, Index, IndexBuilder
from zenith.backends.lower.nest import KernelInterface, element_loops, find_loops, scalar_cost, with_used_buffers
from zenith.ir.dims import Dim, dim, product, row_major
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Overwrite


def lower_overwrite(body: Graph) -> list[Kernel]:
    """The kernel that copies the operand, and the one that writes the update."""
    face, (result,) = KernelInterface.of(body), body.outputs
    x, update, *_ = body.args(result.node)
    return [copy_kernel(face, x), _writing(face, result, update)]


def copy_kernel(face: KernelInterface, x: Value) -> Kernel:
    """The kernel that copies a value to the result."""
    (out,) = face.outputs

    def visit(e: ElementBuilder, index: Index) -> Dim:
        at = row_major(x.shape, index)
        e.append(Store(out, at, e.element(x, index)))
        return at

    return replace(_elementwise(face, x.shape, visit, dim(2)), doc="copy", operations=dim(0))


def _writing(face: KernelInterface, result: Value, update: Value) -> Kernel:
    body, (out,) = face.body, face.outputs
    node, args = body.node(result.node), body.args(result.node)
    assert isinstance(node.primitive.lowering, Overwrite)
    coordinates_of = node.primitive.lowering.coordinates

    def visit(e: ElementBuilder, index: Index) -> Dim:
        read = [lambda *i, a=a: e.element(a, tuple(map(dim, i))) for a in args]
        found = coordinates_of(IndexBuilder(e, node.line, index), index, read, [a.type for a in args], node.params)
        at = row_major(result.shape, tuple(map(dim, found)))
        e.append(Store(out, at, e.element(update, index)))
        return at

    return _elementwise(face, update.shape, visit, dim(scalar_cost(body)))


def _elementwise(
    face: KernelInterface, space: Sequence[Dim], visit: Callable[[ElementBuilder, Index], Dim], cost: Dim
) -> Kernel:
    """A kernel that visits the elements of a space, a task each; ``visit`` returns the position that it wrote."""
    written: list[Dim] = []
    groups = find_loops(face, space, lambda e, index: written.append(visit(e, index)), lambda index: written)
    e = face.builder()
    element_loops(e, space, groups, lambda index: written.append(visit(e, index)))
    return with_used_buffers(face.kernel(product(space), cost, e))
