"""Attention for libraries: buffers and strides of queries, keys, values and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.backends.kernel import Buffer
from zenith.backends.lower.attention.delta import delta
from zenith.backends.lower.collapse import step
from zenith.backends.lower.nest import KernelInterface, tile_result
from zenith.backends.lower.operand import source_of
from zenith.backends.lower.product.library import Matrices, collapsed, operand_matrices, row_major_steps
from zenith.ir.dims import Dim, dim, product, row_major, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Scalar
from zenith.ir.primitive import get

FORWARD, BACKWARD = ("o", "stats"), ("dq", "dk", "dv")  # the results of attention, and of its backward pass


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of ``shape`` (leading axes..., queries), with so many keys and sizes of a query and of a value.

    ``matrices`` are q, k, v, o and maybe stats, the log-sum-exp of each query, which has no last axis; in the backward
    pass all of these, the cotangent do, and the results dq, dk, dv.
    """

    shape: tuple[Dim, ...]
    keys: Dim
    size: Dim
    columns: Dim
    matrices: Mapping[str, Matrices]
    scale: float
    causal: bool

    @property
    def is_backward(self) -> bool:
        """Whether it is the backward pass."""
        return "do" in self.matrices

    @property
    def operations(self) -> Dim:
        """Its products, two or five of them, each a multiplication and an addition a term."""
        columns: Dim = 3 * self.size + 2 * self.columns if self.is_backward else self.size + self.columns
        return product(self.shape) * self.keys * columns * 2


def describe(body: Graph) -> Attention | str:
    """The attention of a body, or why no library computes it."""
    found = _matrices(body, "qkv", FORWARD)
    if isinstance(found, str):
        return found
    if "o" not in found or len(found) != 3 + len(body.outputs):
        return "its results are others"
    if found["o"].dtype != found["q"].dtype:
        return f"its result is {found['o'].dtype}, of which the library computes 16 bits"
    return _attention(body, found)


def describe_vjp(body: Graph) -> Attention | str:
    """The backward pass of attention, or why no library computes it."""
    found = _matrices(body, ("q", "k", "v", "do"), BACKWARD)
    if isinstance(found, str):
        return found
    if not {*BACKWARD} <= found.keys() or len(found) != 4 + len(body.outputs):
        return "not all of its three results are wanted, once each"
    if any(found[name].dtype != found["q"].dtype for name in BACKWARD):
        return "its results are wider than the 16 bits that the library computes"
    result, stats = (
        _result(body, found["do"]),
        _input_view(KernelInterface.of(body), body.args(tile_result(body).node)[4]),
    )
    if isinstance(result, str):
        return result
    if result.dtype != found["q"].dtype or result.steps[-1] != 1:
        return "attention's result is not stored as its operands are"
    assert stats is not None, "the log-sum-exp is another kernel's result"
    found |= {"o": result, "stats": Matrices(stats.buffer, stats.dtype, stats.at, (*stats.steps, dim(1)))}
    return _attention(body, found)


def _attention(body: Graph, found: Mapping[str, Matrices]) -> Attention:
    tile = tile_result(body)
    params, (q, k, v, *_) = body.node(tile.node).params, body.args(tile.node)
    return Attention(q.shape[:-1], k.shape[-2], q.shape[-1], v.shape[-1], found, params["scale"], params["causal"])


def _matrices(body: Graph, operands: Sequence[str], results: Sequence[str]) -> dict[str, Matrices] | str:
    """The operands and the wanted results of a tile kernel by their names; a reason where no library takes them."""
    face, tile = KernelInterface.of(body), tile_result(body)
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
            return "it has an epilogue of other operations"
        found[results[made[0]]] = made[1]
    if any(m.steps[-1] != 1 for m in found.values()):
        return "an operand's rows are not contiguous"
    return found


def _output(body: Graph, tile: Value, name: str, value: Value) -> tuple[int, Matrices] | None:
    """The result of a tile kernel that an output is, maybe rounded and transposed, and its buffer and strides."""
    steps, dtype = list(row_major_steps(value.shape)), value.dtype
    while value.node != tile.node:
        node = body.node(value.node)
        if node.primitive.name == "transpose":
            permuted = dict(zip(node.params["axes"], steps, strict=True))
            steps = [permuted[axis] for axis in range(len(steps))]
        elif node.primitive is not get("cast"):
            return None
        (value,) = body.args(value.node)
    a_number_a_row = len(value.shape) < len(tile.shape)
    return value.output, Matrices(name, dtype, dim(0), (*steps, *[dim(1)] * a_number_a_row))


def _result(body: Graph, cotangent: Matrices) -> Matrices | str:
    """The buffer and strides of attention's result, from which the group computes delta; or a reason without one."""
    sums = delta(body)
    if sums is None:
        return "attention's result is not read in its group: the sums of its changes are made elsewhere"
    (factors,) = body.args(sums.node)
    if body.node(factors.node).primitive is not get("mul") or body.node(sums.node).primitive is not get("reduce_sum"):
        return "delta is computed in another way"
    face = KernelInterface.of(body)
    both = [_input_view(face, value) for value in body.args(factors.node)]
    others = [m for k, m in enumerate(both) if m is not None and both[1 - k] == cotangent]
    return others[0] if others else "delta is computed in another way"


def _input_view(face: KernelInterface, value: Value) -> Matrices | None:
    """The buffer and strides of a value that is an input read through index maps; None for other values."""
    index = tuple(symbol(f"axis{k}_of_operand") for k in range(len(value.shape)))
    ancestors = face.body.ancestors([value.node])
    if any(isinstance(face.body.node(n).primitive.lowering, Scalar) and not _is_cast(face, n) for n in ancestors):
        return None
    source, source_index = source_of(face, value, index)
    at = row_major(source.shape, source_index)
    steps = [step(at, str(axis)) for axis in index]
    start = at.substitute(dict.fromkeys(map(str, index), 0))
    if any(s is None for s in steps):
        return None
    name = face.inputs[source.node, source.output]
    return Matrices(name, source.dtype, start, tuple(s for s in steps if s is not None))


def _is_cast(face: KernelInterface, number: int) -> bool:
    return face.body.node(number).primitive is get("cast")


@dataclass(frozen=True, slots=True)
class StridedArray:
    """One of the arrays for given sizes: its buffer, the position of its first element, and steps along four axes."""

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
    arrays: Mapping[str, StridedArray]


def heads(found: Attention, sizes: Mapping[str, int]) -> Heads | str:
    """Attention for given sizes; a reason where the steps of leading axes do not collapse."""
    *outer, queries = (n.evaluate(sizes) for n in found.shape)
    steps = {name: [s.evaluate(sizes) for s in m.steps] for name, m in found.matrices.items()}
    axes = collapsed(outer, list(steps.values()))
    if len(axes) > 2:
        return "leading axes lie in memory in more than two ways"
    nothing: tuple[int, list[int]] = (1, [0] * len(steps))
    first, second = [nothing, nothing, *axes][-2:] if len(axes) != 1 else (axes[0], nothing)
    pairs = zip(first[1], second[1], strict=True)
    arrays = {
        name: StridedArray(m.buffer, m.dtype, m.at.evaluate(sizes), (*by, steps[name][-2], steps[name][-1]))
        for (name, m), by in zip(found.matrices.items(), pairs, strict=True)
    }
    keys, size, columns = (n.evaluate(sizes) for n in (found.keys, found.size, found.columns))
    return Heads(first[0], second[0], queries, keys, size, columns, arrays)


def buffers_of(body: Graph, found: Attention) -> tuple[Buffer, ...]:
    """The buffers that the library's call reads and writes."""
    used = {m.buffer for m in found.matrices.values()}
    return tuple(b for b in KernelInterface.of(body).buffers if b.name in used)
