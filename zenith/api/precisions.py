"""How many bytes a program's weights have, by their precision: of what its kernels read, as the last pass left it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from zenith.ir.graph import Graph, Value
from zenith.ir.text import parse
from zenith.ir.types import DTYPES, ArrayType, Type, uint8

STORED = frozenset({"constant", "weight"})
_NAMES = {dtype: dtype.numpy_name for dtype in DTYPES}


def weight_bytes(optimized: str) -> dict[str, int]:
    """The bytes of weights and constants, by precision, largest first; of a program's graph, as text.

    What is prepared from a weight ahead of all calls, such as one in bfloat16, counts in its place.

    >>> weight_bytes('''def f(x: f32[n, 4]) -> (f32[n, 8]):
    ...     v1 = constant(id="c0", dtype=f32, shape=(4, 8))
    ...     v2 = matmul(x, v1)
    ...     return (v2,)''')
    {'float32': 128}
    """
    found = Counter[str]()
    for precision, size in _kept(parse(optimized)):
        found[precision] += size
    return dict(found.most_common())


def _kept(graph: Graph) -> Iterator[tuple[str, int]]:
    """The precision and the bytes of each array that calls read."""
    fixed, numbers, bits = set[int](), set[int](), dict[Value, int]()
    read: list[Value] = [*graph.outputs]
    for number, node in graph.nodes():
        args = graph.args(number)
        sources = {arg.node for arg in args} - numbers
        follows = bool(sources) and sources <= fixed and not node.primitive.effect and all(map(_is_fixed, node.types))
        if node.primitive.name in STORED or follows:
            fixed.add(number)
            continue
        if node.primitive.name == "literal":
            numbers.add(number)
        read += args
        bits.update(_levels(graph, number))
        if node.primitive.name != "fused":
            for body in node.bodies:
                yield from _kept(body)
    for value in dict.fromkeys(value for value in read if value.node in fixed):
        type = graph.node(value.node).types[value.output]
        assert isinstance(type, ArrayType), "a token is not fixed"
        size = type.size.static
        assert size is not None, "what is fixed has a size"
        precision = f"int{bits[value]}" if value in bits else _NAMES[type.dtype]
        yield precision, size * type.dtype.numpy.itemsize


def _is_fixed(type: Type) -> bool:
    """Whether an array has one size in all calls."""
    return isinstance(type, ArrayType) and type.size.static is not None


def _levels(graph: Graph, number: int) -> Iterator[tuple[Value, int]]:
    """The operands of a node that are levels in bytes, and how many bits each level has."""
    node, args = graph.node(number), graph.args(number)
    if node.primitive.name == "scaled_matmul":
        assert args[1].dtype == uint8, "levels are bytes"
        yield args[1], node.params["bits"]
    elif node.primitive.name == "fused":
        (body,) = node.bodies
        outer = dict(zip(body.inputs, args, strict=True))
        for inside, _ in body.nodes():
            yield from ((outer[value], bits) for value, bits in _levels(body, inside) if value in outer)
