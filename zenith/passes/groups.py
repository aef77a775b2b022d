"""Groups for fusion: operations that one kernel computes together, by kind.

A *group* has a kind and an iteration space, the shape over which its kernel runs:

* ``loops``: elementwise operations of one shape;
* ``rows``: the same, with reductions of the trailing axes and what is computed from their results, and with prefixes
  of the last axis, in one direction;
* ``prefix``: elementwise operations of one shape and prefixes of another axis of it, in one direction;
* ``columns``: a reduction of leading or inner axes with what precedes it;
* ``product``: a matrix product with its epilogue of elementwise operations;
* ``scaled_product``: a product of rows by levels of few bits with scales of groups, with the same;
* ``convolution``: a convolution on blocks of channels, with the same;
* ``convolution_weights``: a convolution's gradient by its weights;
* ``attention``: attention, whose mask is read through index maps;
* ``attention_vjp``: its backward pass, with the sums along rows (delta) that it alone reads;
* ``scatter``: a scatter with the index maps in front of it;
* ``update``: a slice of an array overwritten, with the elementwise operations that compute it;
* ``sort``, ``top_k``, ``order_statistics``: each row's elements in order, the largest ones, or those at some ranks;
* ``true_indices``: where each row of truth values is true.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from zenith.ir.dims import Dim

ATTENTION = ("attention", "attention_vjp")
TILES = ("product", "scaled_product", "convolution", *ATTENTION)  # kinds whose kernels write a result tile by tile
JOINED = ("loops", "rows", "prefix", "product", "scaled_product", "convolution")  # kinds with an epilogue
BORDERED = ("loops", "convolution")  # kinds whose kernels write results inside borders
SIDE_BY_SIDE = ("loops", "rows")  # kinds whose results may be interleaved

Shape = tuple[Dim, ...]


@dataclass(slots=True)
class Group:
    """Nodes that one kernel computes; ``outer`` is the number of leading axes that a rows group does not reduce.

    ``along`` is the axis of its prefixes and whether they go in reverse, None while there are none.
    """

    kind: str
    space: Shape
    outer: int
    members: list[int] = field(default_factory=list)
    along: tuple[int, bool] | None = None

    def level(self, shape: Shape) -> str | None:
        """Whether a value of ``shape`` is computed at every element of the space, once a row, or not in this space."""
        if shape == self.space:
            return "element"
        if self.kind == "rows" and shape == self.space[: self.outer]:
            return "row"
        return None
