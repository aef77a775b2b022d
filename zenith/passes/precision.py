"""16-bit floats: their arithmetic becomes float32's, and it is said where values are rounded to 16 bits.

float16 and bfloat16 are types of memory; no kernel computes in them. After this pass they are read by conversions to
float32 (:func:`~zenith.passes.widenings.is_widening`, exact) and written by conversions from it, and everything between
is float32. Sums and products accumulate in it, as NumPy's do.

A value is rounded to its type wherever a second reader, or anything but arithmetic, may see it: a result of the
program, a value that is read twice, moved, compared, made an integer, cast, or a factor of a matrix product. The only
other case is a value that one arithmetic operation alone reads, such as the product in ``x * y + z``: it is passed on
unrounded, as in a register.

So each value is one number for all its readers: ``y == np.max(y)`` is true somewhere, and a kernel that recomputes y
gets the same y. Which values are rounded follows from the program alone, never from how fusion divides it into kernels.
Rounding where kernels end, as compilers do that consider it an implementation detail, has neither property. Rounding
after every operation, as NumPy does, has both, but takes longer and is less exact: here are never more roundings.

Matrix products and convolutions of 8- and 16-bit integers become int32's, too, and their results are truncated to the
low bits, which are the same: integers wrap. (Those of bytes are found by :mod:`zenith.passes.integer_products`.)
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Composite, Elements, Fold, Prefix, Scalar, Scatter, Tile
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, Type, float32, int32
from zenith.passes.cse import cse
from zenith.passes.dce import dce
from zenith.passes.rewrite import Rewriter, number_of, rebuild

# Discontinuous: their operand must be the number that all other readers see. (Comparisons give no 16-bit float.)
PRODUCTS = frozenset({"matmul", "conv", "conv_blocks", "conv_weights", "conv_blocks_weights"})
DISCRETE = frozenset({"floor", "ceil", "trunc", "round", "sign", "floor_divide", "remainder"})


def precision(graph: Graph) -> Graph:
    """The graph with all arithmetic in types that kernels compute in."""
    if any(_is_narrow(t) for node in graph.walk() for t in node.types):
        return _in_single(dce(cse(graph)))  # so that duplicates and unused values do not distort the count of readers
    return _in_single(graph) if any(map(_is_small_product, graph.walk())) else graph


def _in_single(graph: Graph) -> Graph:
    handed_on = {number for number, node in graph.nodes() if _has_one_reader(graph, number, node)}

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        if _is_small_product(node):
            wide = b.graph.add(node.primitive, [b.cast(a, dtype=int32) for a in args], node.params, node.line)
            return [_rounded(b, r, t) for r, t in zip(wide, node.types, strict=True)]
        before = [a.type for a in graph.args(b.number)]
        if not _is_arithmetic(node) or not any(map(_is_narrow, [*before, *node.types])):
            return None
        results = b.graph.add(node.primitive, [_widened(b, a) for a in args], node.params, node.line)
        if b.number in handed_on:
            return results
        return [_rounded(b, r, t) for r, t in zip(results, node.types, strict=True)]

    return rebuild(graph, visit, inner=_in_single)


def _is_narrow(type: Type) -> bool:
    return isinstance(type, ArrayType) and type.dtype.is_narrow


def _is_small_product(node: Node) -> bool:
    """Whether a node multiplies matrices of integers of 8 or 16 bits."""
    dtypes = [t.dtype for t in node.types if isinstance(t, ArrayType)]
    return node.primitive.name in PRODUCTS and all(d.is_integer and d.bits < int32.bits for d in dtypes)


def _is_arithmetic(node: Node) -> bool:
    """Whether a node computes with elements, and does not only move or convert them."""
    lowering = node.primitive.lowering
    computes = isinstance(lowering, Scalar | Fold | Prefix | Tile | Scatter | Composite)
    computes = computes or (isinstance(lowering, Elements) and lowering.computes)
    moves = node.primitive is get("cast") or (isinstance(lowering, Scatter) and lowering.overwrites)
    return computes and not node.bodies and not moves


def _has_one_reader(graph: Graph, number: int, node: Node) -> bool:
    """Whether the result of arithmetic is an operand of one arithmetic operation, element by element or to a sum."""
    if not _is_arithmetic(node) or not all(map(_is_narrow, node.types)) or any(v.node == number for v in graph.outputs):
        return False
    users = graph.users(number)
    reader = graph.node(users[0][1]) if len(users) == 1 else None
    if reader is None or not isinstance(reader.primitive.lowering, Scalar | Fold | Prefix):
        return False
    smooth = _is_arithmetic(reader) and reader.primitive.name not in DISCRETE
    return smooth and all(map(_is_narrow, reader.types))


def _widened(b: Rewriter, value: Value) -> Value:
    """A value for arithmetic: a 16-bit float in float32, a literal as a literal, a size as it is."""
    if not _is_narrow(value.type):
        return value
    number = number_of(b, value)
    if number is not None:
        return b.full(number, float32, value.shape)
    made, operands = b.definition(value), b.operands(value)
    if made.primitive is get("broadcast") and not operands[0].shape:
        return b.broadcast(_widened(b, operands[0]), shape=value.shape, axes=())
    if made.primitive is get("cast") and b.definition(operands[0]).primitive is get("size"):
        value = operands[0]
    result: Value = b.cast(value, dtype=float32)
    return result


def _rounded(b: Rewriter, value: Value, type: Type) -> Value:
    if not isinstance(type, ArrayType) or value.type == type:
        return value
    result: Value = b.cast(value, dtype=type.dtype)
    return result
