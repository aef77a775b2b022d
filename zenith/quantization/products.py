"""The products of a graph that can be quantised: matrix products and convolutions by a fixed matrix, with its numbers.

A matrix is *fixed* when it follows from constants, weights and numbers. Several matrices times one are one product for
the arithmetic, which only needs the matrix [terms, columns]. A convolution is the product of windows by its weights.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zenith.ir import params as params_
from zenith.ir.graph import Graph, Value, content_hash, stored_name
from zenith.ir.lowering import HostCall, NativeCall, Region
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, NDArray

PRODUCTS = frozenset({"matmul", "conv"})
Names = Mapping[str, Sequence[str]]  # of constants, by their hashes: several where their contents are equal


@dataclass(frozen=True, slots=True)
class Product:
    """A product by a fixed matrix.

    Attributes
    ----------
    node: its node in the graph.
    name: that of its matrix where it has one (a module's parameter), else where the user wrote it, ``mlp.py:12``; a
        second one of that name has its number behind it, ``mlp.py:12 #2``.
    left: the operand that differs from call to call; of a convolution what is inside of its border.
    matrix: the fixed operand, [terms, columns], as it is stored; a convolution's is a view of weights [columns, ...].
    windows: of a convolution, how many elements of a window there are along each axis; empty for matrix products.
    content: the hash of its matrix.
    key: the same for this product in all programs of a function: that hash, and where several are by that matrix, one
        of the operations that compute the other operand, and where these are equal, too, a number.
    operand: the key of the first product with the same left operand and windows, whose levels it shares.
    """

    node: int
    name: str
    left: Value
    matrix: NDArray
    windows: tuple[int, ...] = ()
    content: str = ""
    key: str = ""
    operand: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """A product that stays as it is, and why; with a tolerance, what its result would lose in bytes."""

    name: str
    why: str
    loses: float | None = None


def find(graph: Graph, known: Names | None = None) -> tuple[list[Product], list[Kept]]:
    """The products by fixed matrices in program order, and the other ones; ``known`` has names of constants."""
    fixed, names, shifts = fixed_nodes(graph), NodeNames(graph, known or {}), _shifts(graph)
    found: list[Product] = []
    kept: list[Kept] = []
    arrays: dict[int, tuple[NDArray, ...]] = {}
    for number, node in graph.nodes():
        inner = sum(inside.primitive.name in PRODUCTS for body in node.bodies for inside in body.walk())
        if inner:
            kept.append(Kept(names.of(number), f"{inner} products are inside of a loop or branch"))
        if node.primitive.name not in PRODUCTS or number in shifts:
            continue
        name, why = names.of(number), _refusal(graph, number, fixed)
        if why:
            kept.append(Kept(name, why))
            continue
        left, right = graph.args(number)
        matrix, windows = evaluated(graph, _matrix(graph, right), arrays), ()
        if node.primitive.name == "conv":
            left, windows, matrix = inside_of(graph, left), matrix.shape[2:], matrix.reshape(len(matrix), -1).T
        if not np.isfinite(matrix.astype(np.float32)).all():
            kept.append(Kept(name, "its matrix has nan or infinities"))
            continue
        found.append(Product(number, name, left, matrix, windows))
    return _with_keys(graph, found), kept


def _with_keys(graph: Graph, products: Sequence[Product]) -> list[Product]:
    """The products with keys, and with those of their left operands."""
    hashes = [hash_of(product.matrix) for product in products]
    uses, operands, derivations = Counter(hashes), dict[tuple[Value, tuple[int, ...]], str](), dict[int, str]()
    found, seen = [], Counter[str]()
    for content, product in zip(hashes, products, strict=True):
        key = content
        if uses[content] > 1:
            key = f"{content}.{_derivation(graph, product.left.node, derivations)}"
            seen[key] += 1
            key += f" #{seen[key]}" if seen[key] > 1 else ""
        operand = operands.setdefault((product.left, product.windows), key)
        found.append(replace(product, content=content, key=key, operand=operand))
    return found


def hash_of(matrix: NDArray) -> str:
    """A hash of a matrix' numbers, in the order in which they are in memory, so that none is copied."""
    numbers = np.asarray(matrix, np.float32)
    if numbers.T.flags.c_contiguous and not numbers.flags.c_contiguous:
        return f"{content_hash(numbers.T)}T"
    return content_hash(numbers)


def _derivation(graph: Graph, number: int, known: dict[int, str]) -> str:
    """A hash of the operations that compute a node, whatever its sizes and element types are."""
    for n in sorted(graph.ancestors([number])):
        if n not in known:
            node = graph.node(n)
            parts = [node.primitive.name, *(f"{known[a.node]}:{a.output}" for a in graph.args(n))]
            parts += [repr(node.params["value"])] if node.primitive.name == "literal" else []
            parts += [stored_name(node)] if node.primitive.name in ("constant", "weight") else []
            parts += [str(node.params["name"])] if node.primitive.name == "input" else []
            known[n] = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
    return known[number]


def inside_of(graph: Graph, value: Value) -> Value:
    """The array inside of a border of zeros around its last axes; the value itself where there is none."""
    border = graph.node(value.node)
    if border.primitive.name != "pad" or any(n != 0 for name in border.params for n in border.params[name][:2]):
        return value
    source, number = graph.args(value.node)
    made = graph.node(number.node)
    return source if made.primitive.name == "literal" and made.params["value"] == 0 else value


class NodeNames:
    """Names for nodes, each once."""

    def __init__(self, graph: Graph, known: Names) -> None:
        self.graph, self._known = graph, {constant: list(names) for constant, names in known.items()}
        self._seen: dict[str, int] = {}

    def of(self, number: int, operand: int | None = None) -> str:
        """The name of a constant that an operand is made of, a product's right one by default, else the node's line."""
        node = self.graph.node(number)
        if operand is None:
            operand = self.graph.args(number)[-1].node if self.graph.args(number) else number
        while self.graph.args(operand):
            operand = self.graph.args(operand)[0].node
        constant = self.graph.node(operand)
        names = self._known.get(constant.params["id"], []) if constant.primitive.name == "constant" else []
        base = names[0] if names else node.primitive.name if node.line is None else str(node.line)
        del names[: len(names) > 1]  # equal parameters have as many names: the next product has the next one
        count = self._seen[base] = self._seen.get(base, 0) + 1
        return base if count == 1 else f"{base} #{count}"


def fixed_nodes(graph: Graph) -> set[int]:
    """The nodes that follow from constants, weights and numbers alone."""
    found = set[int]()
    for number, node in graph.nodes():
        is_plain = not (node.bodies or node.primitive.effect or node.primitive.name == "input")
        is_plain = is_plain and not isinstance(node.primitive.lowering, HostCall | NativeCall | Region)
        is_static = all(isinstance(t, ArrayType) and t.size.static is not None for t in node.types)
        if is_plain and is_static and {a.node for a in graph.args(number)} <= found:
            found.add(number)
    return found


def _shifts(graph: Graph) -> set[int]:
    """The products that are a part of one by levels, whose zeros they shift: such a one is quantised already."""
    found = set[int]()
    for number, node in graph.nodes():
        args = [a.node for a in graph.args(number)] if node.primitive.name == "add" else []
        if any(graph.node(arg).primitive.name == "scaled_matmul" for arg in args):
            found.update(args)
    return found


def _refusal(graph: Graph, number: int, fixed: set[int]) -> str:
    """Why a product stays as it is; empty where it need not."""
    node = graph.node(number)
    left, right = graph.args(number)
    (type,) = node.types
    assert isinstance(type, ArrayType)
    if not type.dtype.is_float:
        return f"its elements are {type.dtype}"
    is_convolution = node.primitive.name == "conv"
    if is_convolution and node.params["groups"] != 1:
        return "a convolution in groups of channels"
    matrix = _matrix(graph, right)
    if matrix.node not in fixed:
        return "its left operand is the fixed one" if left.node in fixed else "both operands differ from call to call"
    if left.node in fixed:
        return "both operands are fixed"
    if len(matrix.shape) != 2 and not is_convolution:
        return "it has a matrix for each index of a batch"
    return "" if all(size.static for size in matrix.shape) else "its matrix is empty"


def _matrix(graph: Graph, right: Value) -> Value:
    """The matrix that a right operand repeats along leading axes."""
    node, rank = graph.node(right.node), len(right.shape)
    if node.primitive is get("broadcast") and node.params["axes"] == (rank - 2, rank - 1):
        return graph.args(right.node)[0]
    return right


def evaluated(graph: Graph, value: Value, known: dict[int, tuple[NDArray, ...]]) -> NDArray:
    """The array of a fixed value."""
    if value.node not in known:
        node = graph.node(value.node)
        if node.primitive.name in ("constant", "weight"):
            stored = graph.stored(node)
            assert stored is not None, "a traced graph has its arrays"
            known[value.node] = (stored,)
        else:
            args = [evaluated(graph, arg, known) for arg in graph.args(value.node)]
            results = node.primitive.evaluate(args, params_.evaluate(node.primitive.params, node.params, {}))
            known[value.node] = tuple(map(np.asarray, results))
    return known[value.node][value.output]
