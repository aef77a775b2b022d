"""Products of float32 whose operands are rounded to a 16-bit float, where ``precision="bf16"`` or ``"fp16"`` allows it.

A product of bfloat16 takes two terms at once, a GPU's tensor cores take either, and matrices half the memory. Sums stay
float32, and so does everything that is no matrix product: results are rounded nowhere but on their way into the next
product. Queries, keys and values of attention are operands of products; its backward pass has the same, since it
computes its weights from them once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from zenith.errors import UnsupportedError
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, DType, float32
from zenith.passes.rewrite import Rewriter, rebuild
from zenith.passes.widenings import is_widening

OPERANDS = {"matmul": 2, "attention": 3, "attention_vjp": 3}  # how many first ones are rounded


def rounded_products(dtype: DType) -> Callable[[Graph], Graph]:
    """The pass that rounds their operands to a type."""

    def rounded_products(graph: Graph) -> Graph:
        return rebuild(graph, visit, inner=rounded_products)

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        (type, *_) = node.types or (None,)
        count = OPERANDS.get(node.primitive.name)
        if count is None or not isinstance(type, ArrayType) or type.dtype != float32:
            return None
        return b.copy(node, [*(rounded(b, value, dtype) for value in args[:count]), *args[count:]])

    return rounded_products


def rounded(b: Rewriter, value: Value, dtype: DType) -> Value:
    """A value rounded to a type, and widened again; what is only moved is rounded where it is computed."""
    if is_widening(b.so_far, value.node):
        return value
    if b.definition(value).primitive.name in ("reshape", "transpose", "broadcast"):
        (source,) = b.operands(value)
        (moved,) = b.copy(b.definition(value), [rounded(b, source, dtype)])
        return moved
    _check_range(b, value, dtype)
    result: Value = b.cast(b.cast(value, dtype=dtype), dtype=float32)
    return result


def _check_range(b: Rewriter, value: Value, dtype: DType) -> None:
    """UnsupportedError for a constant with finite numbers that would become infinite."""
    node = b.definition(value)
    if node.primitive is not get("constant"):
        return
    array = b.graph.constants[node.params["id"]]
    with np.errstate(over="ignore"):
        lost = np.isfinite(array) & ~np.isfinite(array.astype(dtype.numpy))
    if lost.any():
        end = f"{dtype.numpy_name} ends at {dtype.largest:g}"
        raise UnsupportedError(f"a factor of a product has {array[lost][0]:g}, and {end}", where=node.line,
                               fix="scale it before the product, or leave out precision=")  # fmt: skip


def rounded_operands(b: Rewriter, node: Node, args: Sequence[Value], dtype: DType) -> Sequence[Value]:
    """A product or convolution with operands rounded to a type and sums in float32, of any type of floats."""
    left, right = (v if v.dtype == float32 else b.cast(v, dtype=float32) for v in args)
    (found,) = b.copy(node, [_rounded_inside(b, left, dtype), rounded(b, right, dtype)])
    return [found if args[0].dtype == float32 else b.cast(found, dtype=args[0].dtype)]


def _rounded_inside(b: Rewriter, x: Value, dtype: DType) -> Value:
    """An array rounded inside of its border, where it has one."""
    made = b.definition(x)
    if made.primitive is not get("pad"):
        return rounded(b, x, dtype)
    source, number = b.operands(x)
    inside, border = (b.cast(value, dtype=dtype) for value in (source, number))
    (bordered,) = b.copy(made, [inside, border])
    result: Value = b.cast(bordered, dtype=float32)
    return result
