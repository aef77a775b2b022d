"""Products by cuBLASLt: a group's product as the library's problem, for one set of sizes.

The library's matrices are column-major, a program's row-major: the same memory is the transpose. So the library has to
compute ``(left right)' = right' left'``, with the operands exchanged; a bias along the rows of the result is then one
along the library's columns, as it supports it. An operand that a program reads transposed is just not transposed there.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from zenith.backends.cuda import cublaslt
from zenith.backends.cuda.cublaslt import MatmulProblem, MatrixLayout
from zenith.backends.cuda.driver import driver
from zenith.backends.lower.product.library import SUMS, Batches, Product, StridedMatrices, batches
from zenith.backends.routines import Ready, Routine, RoutineUse
from zenith.ir.dims import Dim, minimum, product
from zenith.ir.graph import Graph
from zenith.ir.types import DType

WORKSPACE = 32 << 20  # bytes, as NVIDIA recommends for large GPUs
SPLITS = 16  # of a sum at most (split-K), whose partial sums are in the workspace
AUX_STEP = 8  # elements: the strides of arrays that an epilogue saves or reads are multiples of it
EPILOGUES = {"": "DEFAULT", "relu": "RELU", "gelu": "GELU", "dgelu": "DGELU"}


def compute_type(operands: DType, tf32: bool) -> str:
    """The library's compute type for operands of a type: sums are float32 at least."""
    if operands.bits == 64:
        return "COMPUTE_64F"
    return "COMPUTE_32F_FAST_TF32" if tf32 and operands.bits == 32 else "COMPUTE_32F"


def epilogue_name(found: Product) -> str:
    """The library's name of a product's epilogue; its A is the right operand."""
    fused = found.epilogue
    if found.summed:
        return "BGRADA" if found.summed == "right" else "BGRADB"
    name = (
        EPILOGUES[fused.function]
        + ("_AUX" if fused.has_auxiliary else "")
        + ("_BIAS" if fused.bias is not None else "")
    )
    return "BIAS" if name == "DEFAULT_BIAS" else name


def use(body: Graph, found: Product, buffers: Sequence[Any], tf32: bool) -> RoutineUse:
    """The library's call for a product of a group."""
    names = [b.name for b in buffers]
    operands, workspace = found.left.dtype, workspace_bytes(found)
    words = [operands.name + (" as tf32" if tf32 and operands.bits == 32 else ""), str(found.epilogue)]
    form = ", ".join(filter(None, [*words, f"sums of the {found.summed}" if found.summed else ""]))
    ready = partial(ready_product, found, names, compute_type(operands, tf32), workspace)
    return RoutineUse(Routine(cublaslt.NAME, "matmul", form, ready=ready), tuple(buffers), found.operations, workspace)


def workspace_bytes(found: Product) -> Dim:
    """Bytes for the partial sums of a split-K product."""
    return minimum(WORKSPACE, SPLITS * 4 * product(found.shape))


def ready_product(
    found: Product, names: Sequence[str], compute: str, workspace: Dim, sizes: Mapping[str, int],
    alignments: Sequence[int],
) -> Ready | str:  # fmt: skip
    """A function that calls the library for a product of these sizes; why it does not take them, as text."""
    flat = batches(found, sizes)
    if isinstance(flat, str):
        return flat
    if flat.count * flat.rows * flat.columns == 0:
        return _nothing
    if flat.terms == 0:
        return "there are no terms to sum"
    if found.summed and flat.terms == 1:
        return "not all versions have row sums of one term in an epilogue"
    aligned = dict(zip(names, alignments, strict=False))  # the workspace has no name
    described = _problem(found, flat, compute, workspace.evaluate(sizes), aligned)
    if isinstance(described, str):
        return described
    prepared = cublaslt.prepare(described, driver().device())
    if isinstance(prepared, str):
        return prepared
    bias = found.epilogue.bias
    starts = {name: (names.index(m.buffer), m.at * m.dtype.itemsize) for name, m in flat.matrices.items()}
    if bias is not None:
        starts["bias"] = names.index(bias.buffer), bias.at.evaluate(sizes) * bias.dtype.itemsize
    if found.summed:
        starts["sums"] = names.index(SUMS), 0
    return _Product(found, prepared, starts)


def _nothing(addresses: Sequence[int], stream: int) -> None:
    """The result has no elements."""


class _Product:
    """Calls the library with the addresses of a group's buffers; the last is the workspace's."""

    def __init__(self, found: Product, prepared: Any, starts: Mapping[str, tuple[int, int]]) -> None:
        self.prepared, self.starts = prepared, dict(starts)
        number = ctypes.c_double if found.result.dtype.bits == 64 else ctypes.c_float
        self._numbers = number(found.epilogue.scale), number(found.epilogue.share)
        self._at = tuple(map(ctypes.addressof, self._numbers))
        self._pointers = {
            "bias": "BIAS_POINTER",
            "sums": "BIAS_POINTER",
            "auxiliary": "EPILOGUE_AUX_POINTER",
            "saved": "EPILOGUE_AUX_POINTER",
        }

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        at = {name: addresses[index] + offset for name, (index, offset) in self.starts.items()}
        pointers = {attribute: at[name] for name, attribute in self._pointers.items() if name in at}
        result = at["result"]
        operands = at["right"], at["left"], at.get("addend", result), result
        self.prepared(*operands, pointers, *self._at, addresses[-1], stream)


def _problem(
    found: Product, flat: Batches, compute: str, workspace: int, aligned: Mapping[str, int]
) -> MatmulProblem | str:
    """The library's problem; why it has none for matrices of this layout."""
    matrices = flat.matrices
    left = _operand(matrices["left"], flat.rows, flat.terms, flat.count)
    right = _operand(matrices["right"], flat.terms, flat.columns, flat.count)
    result = _operand(matrices["result"], flat.rows, flat.columns, flat.count)
    addend = _addend(matrices.get("addend"), flat)
    if left is None or right is None:
        return "an operand has neighbours neither in rows nor in columns"
    if result is None or result[1]:
        return "the result has no neighbours in rows"
    if isinstance(addend, str):
        return addend
    aux = _aux(matrices.get("auxiliary", matrices.get("saved")), flat, aligned)
    if isinstance(aux, str):
        return aux
    shown = [matrices[name] for name in ("right", "left")]
    shown += [matrices.get("addend", matrices["result"]), matrices["result"]]
    bytes_ = tuple(_alignment(m, aligned) for m in shown)
    bias = found.epilogue.bias if not found.summed else found.result
    return MatmulProblem(
        compute, (right[1], left[1]), right[0], left[0], addend or result[0], result[0], epilogue_name(found),
        (bytes_[0], bytes_[1], bytes_[2], bytes_[3]), workspace, None if bias is None else bias.dtype, aux,
    )  # fmt: skip


def _operand(matrix: StridedMatrices, rows: int, columns: int, count: int) -> tuple[MatrixLayout, bool] | None:
    """A row-major matrix in the library's layout, and whether it is transposed; None where neither fits."""
    if matrix.column == 1 or columns == 1:
        ld = matrix.row if rows > 1 else columns
        if ld >= columns:
            return MatrixLayout(matrix.dtype, columns, rows, ld, count, matrix.batch), False
    if matrix.row == 1 or rows == 1:
        ld = matrix.column if columns > 1 else rows
        if ld >= rows:
            return MatrixLayout(matrix.dtype, rows, columns, ld, count, matrix.batch), True
    return None


def _addend(matrix: StridedMatrices | None, flat: Batches) -> MatrixLayout | str | None:
    """The layout of the addend, whose rows may be one row."""
    if matrix is None:
        return None
    ld = matrix.row if flat.rows > 1 else flat.columns
    if (matrix.column != 1 and flat.columns > 1) or 0 < ld < flat.columns or ld < 0:
        return "the addend has no neighbours in rows"
    return MatrixLayout(matrix.dtype, flat.columns, flat.rows, ld, flat.count, matrix.batch)


def _alignment(matrix: StridedMatrices, aligned: Mapping[str, int]) -> int:
    """The alignment of a matrix's first element in bytes."""
    return math.gcd(aligned[matrix.buffer], matrix.at * matrix.dtype.itemsize)


def _aux(
    matrix: StridedMatrices | None, flat: Batches, aligned: Mapping[str, int]
) -> tuple[int, int, int] | str | None:
    """The strides of the array that an epilogue saves or reads, and its alignment."""
    if matrix is None:
        return None
    ld = matrix.row if flat.rows > 1 else -(-flat.columns // AUX_STEP) * AUX_STEP
    if (matrix.column != 1 and flat.columns > 1) or ld < flat.columns or ld % AUX_STEP:
        return f"the rows that the epilogue saves or reads are no multiple of {AUX_STEP} elements apart"
    return ld, matrix.batch, _alignment(matrix, aligned)
