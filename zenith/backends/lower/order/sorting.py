"""A sort: what all kernels of one know, whatever they sort by."""

from __future__ import annotations

from collections.abc import Collection

from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.nest import KernelInterface
from zenith.backends.work import operations_of
from zenith.ir.dims import Dim, minimum, product
from zenith.ir.graph import Graph
from zenith.ir.types import DType, bool_, int32


class Sorting:
    """The sort of a group: ``rows`` times ``size`` elements of the operand ``x``, which are compared as ``key``."""

    def __init__(self, body: Graph, face: KernelInterface | None = None) -> None:
        self.body, self.face = body, face or KernelInterface.of(body)
        node = body.outputs[0].node
        (self.x,) = body.args(node)
        self.descending = bool(body.node(node).params["descending"])
        self.size, self.rows = self.x.shape[-1], product(self.x.shape[:-1])
        self.key: DType = int32 if self.x.dtype == bool_ else self.x.dtype

    @property
    def operations(self) -> Dim:
        """The operations of sorting and of computing the elements."""
        return operations_of(self.body, [number for number, _ in self.body.nodes()])

    def output(self, number: int) -> str | None:
        """The name of the result with the elements (0) or their indices (1), where there is one."""
        found = zip(self.face.outputs, self.body.outputs, strict=True)
        return next((name for name, value in found if value.output == number), None)

    def builder(self, others: Collection[str] = ()) -> ElementBuilder:
        """A builder in which the names of other buffers are taken."""
        e = self.face.builder()
        e.taken |= {*others}
        return e


def one_if_above(size: Dim, limit: int) -> Dim:
    """1 where a size is above a limit, else 0."""
    return minimum(size // (limit + 1), 1)
