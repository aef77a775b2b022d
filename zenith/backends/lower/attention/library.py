"""Attention for libraries: where queries, keys, values and results lie, and at which steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.backends.kernel import Buffer
from zenith.backends.lower.attention.delta import delta
from zenith.backends.lower.collapse import step
from zenith.backends.lower.nest import Interface, tile_result
from zenith.backends.lower.operand import source_of
from zenith.backends.lower.product.library import Matrices, collapsed, operand_matrices, row_major_steps
from zenith.ir.dims import Dim, dim, product, row_major, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Scalar
from zenith.ir.primitive import get

FORWARD, BACK = ("o", "stats"), ("dq", "dk", "dv")  # the results of attention, and of the way back through it


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of ``shape`` (leading axes..., queries), with so many keys and sizes of a query and of a value.

    ``matrices`` are q, k, v, o and maybe stats, the logarithms of the queries' sums, whose last step is none; on the
    way back all of these, the cotangent do, and the results dq, dk, dv.
    """

    shape: tuple[Dim, ...]
    keys: Dim
    size: Dim
    columns: Dim
    matrices: Mapping[str, Matrices]
    scale: float
    causal: bool

    @property
    def is_back(self) -> bool:
        """Whether it is the way back."""
        return "do" in self.matrices

    @property
    def operations(self) -> Dim:
        """Its products, two or five of them, each a multiplication and an addition a term."""
        columns: Dim = 3 * self.size + 2 * self.columns if self.is_back else self.size + self.columns
        return product(self.shape) * self.keys * columns * 2


def describe(body: Graph) -> Attention | str:
    """The attention of a body, or why it is none that libraries compute."""
    found = _matrices(body, "qkv", FORWARD)
    if isinstance(found, str):
        return found
    if "o" not in found or len(found) != 3 + len(body.outputs):
        return "its results are others"
    if found["o"].dtype != found["q"].dtype:
        return f"its result is {found['o'].dtype}, of which the library computes 16 bits"
    return _attention(body, found)


def describe_vjp(body: Graph) -> Attention | str:
    """The way back through attention, or why it is none that libraries compute."""
    found = _matrices(body, ("q", "k", "v", "do"), BACK)
    if isinstance(found, str):
        return found
    if not {*BACK} <= found.keys() or len(found) != 4 + len(body.outputs):
        return "not all of its three results are wanted, once each"
    if any(found[name].dtype != found["q"].dtype for name in BACK):
        return "its results are wider than the 16 bits that the library computes"
    averages, stats = _averages(body, found["do"]), _lying(Interface.of(body), body.args(tile_result(body).node)[4])
    if isinstance(averages, str):
        return averages
    if averages.dtype != found["q"].dtype or averages.steps[-1] != 1:
        return "the averages are not stored as its operands are"
    assert stats is not None, "logarithms are another kernel's result"
    found |= {"o": averages, "stats": Matrices(stats.buffer, stats.dtype, stats.at, (*stats.steps, dim(1)))}
    return _attention(body, found)


def _attention(body: Graph, found: Mapping[str, Matrices]) -> Attention:
    tile = tile_result(body)
    params, (q, k, v, *_) = body.node(tile.node).params, body.args(tile.node)
    return Attention(q.shape[:-1], k.shape[-2], q.shape[-1], v.shape[-1], found, params["scale"], params["causal"])


def _matrices(body: Graph, operands: Sequence[str], results: Sequence[str]) -> dict[str, Matrices] | str:
    """The operands and the wanted results of a tile kernel by their names; why there are none for a library."""
    face, tile = Interface.of(body), tile_result(body)
    if body.node(tile.node).params["mask"] != "none":
        return "it has a mask, of which a query may see nothing"
    values = body.args(tile.node)[: len(operands)]
    found = {name: operand_matrices(face, value) for name, value in zip(operands, values, strict=True)}
    kinds = {m.dtype for m in found.values()}
    if len(kinds) > 1 or not all(kind.is_narrow for kind in kinds):
        return "its operands are no floats of 16 bits"
    for name, value in zip(face.outputs, body.outputs, strict=True):
        made = _output(body, tile, name, value)
        if made is None:
            return "other operations stand behind it"
        found[results[made[0]]] = made[1]
    if any(m.steps[-1] != 1 for m in found.values()):
        return "an operand has no neighbours in rows"
    return found


def _output(body: Graph, tile: Value, name: str, value: Value) -> tuple[int, Matrices] | None:
    """Which result of a tile kernel an output is, rounded and transposed as it may be, and where."""
    steps, dtype = list(row_major_steps(value.shape)), value.dtype
    while value.node != tile.node:
        node = body.node(value.node)
        if node.primitive.name == "transpose":
            turned = dict(zip(node.params["axes"], steps, strict=True))
            steps = [turned[axis] for axis in range(len(steps))]
        elif node.primitive is not get("cast"):
            return None
        (value,) = body.args(value.node)
    a_number_a_row = len(value.shape) < len(tile.shape)
    return value.output, Matrices(name, dtype, dim(0), (*steps, *[dim(1)] * a_number_a_row))


def _averages(body: Graph, cotangent: Matrices) -> Matrices | str:
    """Where attention's own result lies: the sums of its rows times their cotangents are made in the group."""
    sums = delta(body)
    if sums is None:
        return "attention's result is not read in its group: the sums of its changes are made elsewhere"
    (factors,) = body.args(sums.node)
    if body.node(factors.node).primitive is not get("mul") or body.node(sums.node).primitive is not get("reduce_sum"):
        return "the sums of its changes are made in another way"
    face = Interface.of(body)
    both = [_lying(face, value) for value in body.args(factors.node)]
    others = [m for k, m in enumerate(both) if m is not None and both[1 - k] == cotangent]
    return others[0] if others else "the sums of its changes are made in another way"


def _lying(face: Interface, value: Value) -> Matrices | None:
    """Where a value lies, if it is an input seen through index maps."""
    index = tuple(symbol(f"axis{k}_of_operand") for k in range(len(value.shape)))
    behind = face.body.ancestors([value.node])
    if any(isinstance(face.body.node(n).primitive.lowering, Scalar) and not _is_cast(face, n) for n in behind):
        return None
    source, places = source_of(face, value, index)
    at = row_major(source.shape, places)
    steps = [step(at, str(axis)) for axis in index]
    start = at.substitute(dict.fromkeys(map(str, index), 0))
    if any(s is None for s in steps):
        return None
    name = face.inputs[source.node, source.output]
    return Matrices(name, source.dtype, start, tuple(s for s in steps if s is not None))


def _is_cast(face: Interface, number: int) -> bool:
    return face.body.node(number).primitive is get("cast")


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
