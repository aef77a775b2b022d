"""Products for libraries: buffers and strides of operands and results, and the epilogue.

A library takes matrices at constant strides, so an operand is described by its position and its steps along the axes of
the product, as formulas of the sizes; transposes and slices are only other steps. For given sizes, leading axes at
proportional steps in all matrices become one (:func:`batches`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zenith.backends.kernel import Buffer, Kernel
from zenith.backends.lower.collapse import step
from zenith.backends.lower.nest import KernelInterface, tile_result
from zenith.backends.lower.operand import access
from zenith.backends.lower.product.epilogue import Epilogue, EpilogueOperand
from zenith.backends.lower.product.library_cut import EpilogueCut, kernel_from
from zenith.ir.dims import Dim, dim, product, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.types import DType

PRODUCT = "whole_product"  # the buffer between a library's product and the kernel of its epilogue
SUMS = "row_sums"  # the buffer of an operand's sums


@dataclass(frozen=True, slots=True)
class Matrices:
    """An operand or result: a buffer, the position of its first element, its steps (batch axes..., row, column)."""

    buffer: str
    dtype: DType
    at: Dim
    steps: tuple[Dim, ...]

    @property
    def has_neighbours(self) -> bool:
        """Whether rows or columns are contiguous."""
        return dim(1) in self.steps[-2:]


@dataclass(frozen=True, slots=True)
class Product:
    """Matrix products of ``shape`` (batch axes..., rows, columns) with sums of ``terms``, and their epilogue.

    ``auxiliary`` is the argument of the epilogue's function, where that is a result as well. The operand
    ``summed``, "left" or "right", is also summed along the terms; the sums have the result's type.
    """

    shape: tuple[Dim, ...]
    terms: Dim
    left: Matrices
    right: Matrices
    result: Matrices
    epilogue: Epilogue
    auxiliary: Matrices | None = None
    summed: str = ""

    @property
    def operations(self) -> Dim:
        """A multiplication and an addition for each term."""
        return 2 * product(self.shape) * self.terms


def describe(body: Graph, found: EpilogueCut | None) -> Product:
    """The product of a body; without a cut it is written to the buffer :data:`PRODUCT`, in row-major order."""
    face, tile = KernelInterface.of(body), tile_result(body)
    terms = body.args(tile.node)[0].shape[-1]
    left, right = (operand_matrices(face, value) for value in body.args(tile.node))
    if found is None:
        whole = Matrices(PRODUCT, tile.dtype, dim(0), row_major_steps(tile.shape))
        return Product(tile.shape, terms, left, right, whole, Epilogue())
    outputs = [result_matrices(body, tile, face.outputs[i], body.outputs[i]) for i in found.written]
    auxiliary = outputs[0] if found.epilogue.has_auxiliary else None
    return Product(tile.shape, terms, left, right, outputs[-1], found.epilogue, auxiliary)


def row_major_steps(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """The steps of a row-major array."""
    return tuple(product(shape[k + 1 :]) for k in range(len(shape)))


def operand_matrices(face: KernelInterface, value: Value) -> Matrices:
    """The buffer and strides of an operand of a tile kernel."""
    batch = tuple(symbol(f"batch{k}_of_operand") for k in range(len(value.shape) - 2))
    found = access(face, value, batch)
    steps = [step(found.at, str(b)) for b in batch]
    assert None not in steps, "fusion keeps operands at constant strides"
    start = found.at.substitute(dict.fromkeys(map(str, batch), 0))
    return Matrices(found.buffer, found.dtype, start, (*(s for s in steps if s is not None), *found.strides))


def result_matrices(body: Graph, tile: Value, name: str, value: Value) -> Matrices:
    """The buffer and strides of an output along the axes of the product; it may be a transpose."""
    steps = list(row_major_steps(value.shape))
    node = body.node(value.node)
    while node.primitive.name == "transpose" and tile.node in body.ancestors([value.node]):
        permuted = dict(zip(node.params["axes"], steps, strict=True))
        steps = [permuted[axis] for axis in range(len(steps))]
        (value,) = body.args(value.node)
        node = body.node(value.node)
    return Matrices(name, value.dtype, dim(0), tuple(steps))


def epilogue_kernel(body: Graph) -> Kernel:
    """The kernel that reads the product from its buffer and computes its whole epilogue."""
    return kernel_from(body, {tile_result(body).node: PRODUCT}, range(len(body.outputs)))


def remaining_kernel(body: Graph, found: EpilogueCut) -> Kernel | None:
    """The kernel for the results that the library does not write, if there are any."""
    given = {body.outputs[i].node: f"out{i}" for i in found.written}
    return kernel_from(body, given, found.rest) if found.rest else None


def summed_side(body: Graph, name: str, columns: Dim) -> str | None:
    """The operand ("left", "right") that is all of an input with rows so long, whose rows are the product's terms."""
    face, tile = KernelInterface.of(body), tile_result(body)
    (size,) = (b.size for b in face.buffers if b.name == name)
    operands = body.args(tile.node)
    if len(tile.shape) != 2 or size != operands[0].shape[-1] * columns:
        return None
    for side, value, across in (("left", operands[0], 0), ("right", operands[1], 1)):
        found = operand_matrices(face, value)
        steps = (dim(1), columns) if across == 0 else (columns, dim(1))
        if found.buffer == name and found.at == 0 and found.steps == steps and tile.shape[across] == columns:
            return side
    return None


@dataclass(frozen=True, slots=True)
class StridedMatrices:
    """Matrices for given sizes: the first element's position and the steps along batch, rows and columns, as ints."""

    buffer: str
    dtype: DType
    at: int
    batch: int
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Batches:
    """A product for given sizes: the number of matrices, and each operand and result by name."""

    count: int
    rows: int
    columns: int
    terms: int
    matrices: Mapping[str, StridedMatrices]


def batches(found: Product, sizes: Mapping[str, int]) -> Batches | str:
    """A product for given sizes, its leading axes as one; a reason where their steps do not allow it."""
    *outer, rows, columns = (n.evaluate(sizes) for n in found.shape)
    named = {"left": found.left, "right": found.right, "result": found.result, "auxiliary": found.auxiliary}
    named["addend"] = _as_matrices(found.epilogue.addend)
    named["saved"] = _as_matrices(found.epilogue.saved)
    placed = {name: m for name, m in named.items() if m is not None}
    steps = {name: [s.evaluate(sizes) for s in m.steps] for name, m in placed.items()}
    axes = collapsed(outer, list(steps.values()))
    if len(axes) > 1:
        return "leading axes lie in memory in two ways, and there is one step from matrix to matrix"
    count, by = axes[0] if axes else (1, [0] * len(steps))
    matrices = {
        name: StridedMatrices(m.buffer, m.dtype, m.at.evaluate(sizes), step, *steps[name][-2:])
        for (name, m), step in zip(placed.items(), by, strict=True)
    }
    return Batches(count, rows, columns, found.terms.evaluate(sizes), matrices)


def collapsed(outer: Sequence[int], steps: Sequence[Sequence[int]]) -> list[tuple[int, list[int]]]:
    """Leading axes, collapsed where all operands' steps allow it: their sizes, and a step for each operand."""
    axes: list[tuple[int, list[int]]] = []
    for k, count in enumerate(outer):
        own = [s[k] for s in steps]
        if count == 1:
            continue
        if axes and all(before == count * after for before, after in zip(axes[-1][1], own, strict=True)):
            axes[-1] = (axes[-1][0] * count, own)
        else:
            axes.append((count, own))
    return axes


def _as_matrices(operand: EpilogueOperand | None) -> Matrices | None:
    return None if operand is None else Matrices(operand.buffer, operand.dtype, operand.at, operand.steps)


def buffers_of(body: Graph, found: Product) -> tuple[Buffer, ...]:
    """The buffers that the library's call reads and writes."""
    face, epilogue = KernelInterface.of(body), found.epilogue
    read = {m.buffer for m in (found.left, found.right, epilogue.addend, epilogue.bias, epilogue.saved) if m}
    written = {m.buffer for m in (found.result, found.auxiliary) if m}
    own = tuple(b for b in face.buffers if b.name in read | written)
    more = [Buffer(PRODUCT, found.result.dtype, product(found.shape), "temporary")] if PRODUCT in written else []
    if found.summed:
        more.append(Buffer(SUMS, found.result.dtype, found.shape[-2 if found.summed == "left" else -1], "out"))
    return (*own, *more)
