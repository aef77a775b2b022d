"""Embeddings in bytes: rows of a fixed table, each with a scale and a level of zero, that are gathered as bytes.

A table of a language model is as large as its largest matrices, and a call reads few of its rows. In memory it is
bytes; what makes floats of the gathered ones is part of the kernel that gathers them. Nothing needs to be calibrated,
so all schemes have it, in eight bits: it saves memory, and no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.ir.types import ArrayType, NDArray, float32
from zenith.quantization.products import Kept, Names, NodeNames, evaluated, fixed_nodes, hash_of
from zenith.quantization.scales import best_scales, levels_of

LOWEST = -128


@dataclass(frozen=True, slots=True)
class Table:
    """A fixed matrix of which rows are gathered.

    Attributes
    ----------
    nodes: those that gather, in the graph.
    name: as of a product's matrix.
    rows: the matrix [rows, columns].
    key: a hash of its numbers.
    """

    nodes: tuple[int, ...]
    name: str
    rows: NDArray
    key: str


@dataclass(frozen=True, slots=True)
class Rows:
    """A table in bytes: levels [rows, columns], scales [rows] in float32, and levels of zero [rows], or None for 0."""

    levels: NDArray
    scales: NDArray
    zeros: NDArray | None

    @property
    def arrays(self) -> tuple[NDArray, ...]:
        """What there is in memory: levels, scales, and zeros if there are any."""
        return (self.levels, self.scales) if self.zeros is None else (self.levels, self.scales, self.zeros)

    @property
    def numbers(self) -> NDArray:
        """What the levels stand for, float32."""
        zeros = np.float32(0) if self.zeros is None else self.zeros.astype(np.float32)[:, None]
        found: NDArray = (self.levels - zeros) * self.scales[:, None]
        return found


def find_tables(graph: Graph, known: Names | None = None) -> tuple[list[Table], list[Kept]]:
    """The tables whose rows a graph gathers, and those that stay as they are; ``known`` has names of constants."""
    fixed, names = fixed_nodes(graph), NodeNames(graph, known or {})
    nodes: dict[Value, list[int]] = {}
    for number, node in graph.nodes():
        if node.primitive.name == "take" and node.params["axis"] == 0 and _is_table(fixed, graph.args(number)):
            nodes.setdefault(graph.args(number)[0], []).append(number)
    found, kept = dict[str, Table](), list[Kept]()
    arrays: dict[int, tuple[NDArray, ...]] = {}
    for value, takes in nodes.items():
        rows = evaluated(graph, value, arrays)
        name, key = names.of(takes[0], value.node), hash_of(rows)
        if not np.isfinite(rows.astype(np.float32)).all():
            kept.append(Kept(name, "its table has nan or infinities"))
            continue
        before = found.get(key)
        found[key] = Table((*(before.nodes if before else ()), *takes), before.name if before else name, rows, key)
    return list(found.values()), kept


def _is_table(fixed: set[int], args: Sequence[Value]) -> bool:
    """Whether rows of a fixed matrix of floats are gathered that are others in each call."""
    table, indices = args
    is_matrix = isinstance(table.type, ArrayType) and len(table.shape) == 2 and table.dtype.is_float
    return is_matrix and table.node in fixed and indices.node not in fixed


def rows_in_bytes(table: NDArray, symmetric: bool) -> Rows:
    """A table with the least squared error in bytes, row by row."""
    numbers = np.ascontiguousarray(table, np.float32)[:, None]
    scales, zeros = best_scales(numbers, LOWEST, symmetric)
    levels = levels_of(numbers, scales, zeros, float(LOWEST))[:, 0]
    return Rows(levels, scales[:, 0].copy(), None if symmetric else zeros[:, 0].astype(np.int8))


def gathered(b: Builder, table: Value, indices: Value, arrays: Sequence[Value]) -> Value:
    """Rows of a table in bytes, whose arrays are ``arrays``, as numbers like those of the table itself."""
    levels, scales, *zeros = arrays
    rows = b.cast(b.take(levels, indices, axis=0), dtype=float32)
    axes = tuple(range(len(indices.shape)))
    for zero in zeros:
        row_zero = b.cast(b.take(zero, indices, axis=0), dtype=float32)
        rows = b.sub(rows, b.broadcast(row_zero, shape=rows.shape, axes=axes))
    found = b.mul(rows, b.broadcast(b.take(scales, indices, axis=0), shape=rows.shape, axes=axes))
    return found if table.dtype == float32 else b.cast(found, dtype=table.dtype)
