"""Attention for libraries: where queries, keys, values and results lie, and at which steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zenith.backends.kernel import Buffer
from zenith.backends.lower.library_product import Matrices, collapsed, operand_matrices, row_major_steps
from zenith.backends.lower.nest import Interface
from zenith.backends.lower.operand import tile_result
from zenith.ir.dims import Dim, dim, product
from zenith.ir.graph import Graph, Value
from zenith.ir.primitive import get


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of ``shape`` (leading axes..., queries), with so many keys and sizes of a query and of a value.

    ``matrices`` are q, k, v, o and maybe stats, the logarithms of the queries' sums, whose last step is none.
    """

    shape: tuple[Dim, ...]
    keys: Dim
    size: Dim
    columns: Dim
    matrices: Mapping[str, Matrices]
    scale: float
    causal: bool

    @property
    def operations(self) -> Dim:
        """Both products, each a multiplication and an addition a term."""
        return product(self.shape) * self.keys * (self.size + self.columns) * 2


def describe(body: Graph) -> Attention | str:
    """The attention of a body, or why it is none that libraries compute."""
    face, tile = Interface.of(body), tile_result(body)
    node, args = body.node(tile.node), body.args(tile.node)
    if node.params["mask"] != "none":
        return "it has a mask, of which a query may see nothing"
    matrices = {name: operand_matrices(face, value) for name, value in zip("qkv", args, strict=True)}
    kinds = {m.dtype for m in matrices.values()}
    if len(kinds) > 1 or not all(kind.is_narrow for kind in kinds):
        return "its operands are no floats of 16 bits"
    for name, value in zip(face.outputs, body.outputs, strict=True):
        found = _output(body, tile, name, value)
        if found is None:
            return "other operations stand behind it"
        if found[1].dtype not in kinds and found[0] == "o":
            return f"its result is {found[1].dtype}, of which the library computes 16 bits"
        matrices[found[0]] = found[1]
    if "o" not in matrices or len(matrices) != 3 + len(body.outputs):
        return "its results are others"
    if any(m.steps[-1] != 1 for name, m in matrices.items() if name != "stats"):
        return "an operand has no neighbours in rows"
    q, k, v = args[:3]
    return Attention(
        q.shape[:-1], k.shape[-2], q.shape[-1], v.shape[-1], matrices, node.params["scale"], node.params["causal"]
    )


def _output(body: Graph, tile: Value, name: str, value: Value) -> tuple[str, Matrices] | None:
    """Which result of attention an output is, rounded and transposed as it may be, and where."""
    steps, dtype = list(row_major_steps(value.shape)), value.dtype
    while value.node != tile.node:
        node = body.node(value.node)
        if node.primitive.name == "transpose":
            turned = dict(zip(node.params["axes"], steps, strict=True))
            steps = [turned[axis] for axis in range(len(steps))]
        elif node.primitive is not get("cast"):
            return None
        (value,) = body.args(value.node)
    if value.output == 0:
        return "o", Matrices(name, dtype, dim(0), tuple(steps))
    return "stats", Matrices(name, dtype, dim(0), (*steps, dim(1)))


@dataclass(frozen=True, slots=True)
class Placed:
    """One of the arrays for given sizes: its buffer, the place of its first element, and steps along four axes."""

    buffer: str
    dtype: Any
    at: int
    steps: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Heads:
    """Attention for given sizes, its leading axes as two: examples and heads."""

    examples: int
    heads: int
    queries: int
    keys: int
    size: int
    columns: int
    arrays: Mapping[str, Placed]


def heads(found: Attention, sizes: Mapping[str, int]) -> Heads | str:
    """Attention for given sizes; why not, where arrays walk the leading axes each in its way."""
    *outer, queries = (n.evaluate(sizes) for n in found.shape)
    steps = {name: [s.evaluate(sizes) for s in m.steps] for name, m in found.matrices.items()}
    axes = collapsed(outer, list(steps.values()))
    if len(axes) > 2:
        return "leading axes lie in memory in more than two ways"
    nothing: tuple[int, list[int]] = (1, [0] * len(steps))
    first, second = [nothing, nothing, *axes][-2:] if len(axes) != 1 else (axes[0], nothing)
    pairs = zip(first[1], second[1], strict=True)
    arrays = {
        name: Placed(m.buffer, m.dtype, m.at.evaluate(sizes), (*by, steps[name][-2], steps[name][-1]))
        for (name, m), by in zip(found.matrices.items(), pairs, strict=True)
    }
    keys, size, columns = (n.evaluate(sizes) for n in (found.keys, found.size, found.columns))
    return Heads(first[0], second[0], queries, keys, size, columns, arrays)


def buffers_of(body: Graph, found: Attention) -> tuple[Buffer, ...]:
    """The buffers that the library's call reads and writes."""
    used = {m.buffer for m in found.matrices.values()}
    return tuple(b for b in Interface.of(body).buffers if b.name in used)
