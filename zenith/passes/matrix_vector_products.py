"""Products of a matrix and a vector as reductions: ``A x`` is the sum of ``A * x`` along the rows of ``A``.

Such a product (BLAS calls it GEMV) reads each element of the matrix once, so it takes as long as memory does. Tiles of
a matrix product would copy it, or compute columns that nobody wants. A row times a matrix that is packed before the
program runs, or before a loop, stays a product: its panels are read in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.ops.common import contracted
from zenith.ir.ops.product import swaps_last
from zenith.ir.types import ArrayType, float32, float64
from zenith.passes.rewrite import Rewriter, rebuild


def matrix_vector_products(graph: Graph) -> Graph:
    """The graph with such products of floats written as reductions."""
    varying = _depending_on_inputs(graph)

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        found = _with_column(b, node, args)
        if found is None and b.number in varying:
            found = _with_row(b, node, args)
        return found

    return rebuild(graph, visit, inner=_in_subgraph)


def _in_subgraph(graph: Graph) -> Graph:
    """A subgraph with products by columns alone as reductions: a matrix that it takes from outside is packed there."""
    return rebuild(graph, _with_column)


def _depending_on_inputs(graph: Graph) -> set[int]:
    """The products whose right operand differs from call to call."""
    found: set[int] = set()
    for number, node in graph.nodes():
        if node.primitive.name == "input" or any(a.node in found for a in graph.args(number)):
            found.add(number)
    return {n for n, node in graph.nodes() if _is_product(node) and graph.args(n)[1].node in found}


def _is_product(node: Node) -> bool:
    """Whether a node is a product that sums in the type of its operands."""
    (type, *_) = node.types
    return node.primitive.name == "matmul" and isinstance(type, ArrayType) and type.dtype in (float32, float64)


def _with_column(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    """A matrix times one column."""
    if not _is_product(node) or args[1].shape[-1] != 1:
        return None
    matrix, column = args
    axis = len(matrix.shape) - 1
    if swaps_last(b.definition(matrix)):  # the memory of the matrix itself is read in order
        (matrix,), axis = b.operands(matrix), axis - 1
    return [b.reshape(contracted(b, matrix, column, axis), shape=_shape(args))]


def _with_row(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    """One row times a matrix."""
    row, matrix = args
    if not _is_product(node) or row.shape[-2] != 1:
        return None
    axis = len(matrix.shape) - 2
    if swaps_last(b.definition(matrix)):
        (matrix,), axis = b.operands(matrix), axis + 1
    return [b.reshape(contracted(b, matrix, row, axis), shape=_shape(args))]


def _shape(args: tuple[Value, ...]) -> tuple[Dim, ...]:
    """The shape of a product."""
    left, right = args
    return (*left.shape[:-1], right.shape[-1])
