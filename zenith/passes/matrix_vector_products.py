"""Products of a matrix and a vector as reductions: ``A x`` is the sum of ``A * x`` along the rows of ``A``.

Such a product (BLAS calls it GEMV) reads each element of the matrix once, so it takes as long as memory does. Tiles of
a matrix product would copy it, or compute columns that nobody wants. A row times a matrix that is packed before the
program runs, or before a loop, stays a product: its panels are read in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import ArrayType
from zenith.passes.rewrite import Rewriter, rebuild


def matrix_vector_products(graph: Graph) -> Graph:
    """The graph with such products of floats written as reductions."""
    read = _depends_on_inputs(graph)

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if not _is_product(node):
            return None
        right = graph.args(b.number)[1]
        return _with_column(b, args) or (_with_row(b, args) if right.node in read else None)

    return rebuild(graph, visit, inner=_of_columns)


def _of_columns(graph: Graph) -> Graph:
    """A subgraph, with products by columns alone: what it takes from outside is packed there."""
    return rebuild(graph, lambda b, node, args: _with_column(b, args) if _is_product(node) else None)


def _is_product(node: Node) -> bool:
    """Whether a node is a product that sums in the type of its operands."""
    (type, *_) = node.types
    return (
        node.primitive.name == "matmul"
        and isinstance(type, ArrayType)
        and type.dtype.numpy_name in ("float32", "float64")
    )


def _depends_on_inputs(graph: Graph) -> set[int]:
    """The nodes that are not the same in every call."""
    found: set[int] = set()
    for number, node in graph.nodes():
        if node.primitive.name == "input" or any(a.node in found for a in graph.args(number)):
            found.add(number)
    return found


def _with_column(b: Rewriter, args: tuple[Value, ...]) -> Sequence[Value] | None:
    """A matrix times one column."""
    matrix, column = args
    if column.shape[-1] != 1:
        return None
    vector = b.reshape(column, shape=column.shape[:-1])
    return [b.reshape(_sum(b, matrix, vector, -1), shape=(*matrix.shape[:-1], column.shape[-1]))]


def _with_row(b: Rewriter, args: tuple[Value, ...]) -> Sequence[Value] | None:
    """One row times a matrix."""
    row, matrix = args
    if row.shape[-2] != 1:
        return None
    vector = b.reshape(row, shape=(*row.shape[:-2], row.shape[-1]))
    return [b.reshape(_sum(b, matrix, vector, -2), shape=(*row.shape[:-1], matrix.shape[-1]))]


def _sum(b: Rewriter, matrix: Value, vector: Value, axis: int) -> Value:
    """The sums along the last axis of a matrix, or the one before, of its elements times a vector's along that axis."""
    definition, rank = b.definition(matrix), len(matrix.shape)
    if definition.primitive.name == "transpose":
        axes = tuple(definition.params["axes"])
        if axes == (*range(rank - 2), rank - 1, rank - 2):  # the memory of the untransposed matrix is read in order
            (matrix,), axis = b.operands(matrix), -3 - axis
    axes = (*range(rank - 2), rank + axis)
    repeated = b.broadcast(vector, shape=matrix.shape, axes=axes)
    total: Value = b.reduce_sum(b.mul(matrix, repeated), axes=(rank + axis,))
    return total
