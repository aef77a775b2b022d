"""The door to cuBLASLt: NVIDIA's matrix products, through nvmath's bindings, as objects that clean up after themselves.

Matrices are column-major here, as the library has them. nvmath imports without a GPU and finds the library itself on
demand. Nothing here allocates device memory or waits: the workspace and the stream are parameters, and a problem's
descriptors and algorithm are fixed before it is called, so that calls can be captured in a CUDA graph.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zenith.backends.cuda.library import Door
from zenith.errors import DeviceError
from zenith.ir.types import DType

CUDA_TYPES = {"f16": "CUDA_R_16F", "bf16": "CUDA_R_16BF", "f32": "CUDA_R_32F", "f64": "CUDA_R_64F"}


@dataclass(frozen=True, slots=True)
class MatrixLayout:
    """A column-major matrix, ``count`` of them at steps of ``batch`` elements; ``ld`` is the step between columns."""

    dtype: DType
    rows: int
    columns: int
    ld: int
    count: int = 1
    batch: int = 0


@dataclass(frozen=True, slots=True)
class MatmulProblem:
    """``d = epilogue(op(a) op(b) + share c)``: all properties that the choice of its algorithm depends on.

    ``epilogue`` is a name of cuBLASLt's. ``alignments`` are of a, b, c and d; ``aux`` describes the epilogue's further
    array: the step between its columns, that between its matrices, and its alignment. ``bias`` and ``aux`` exist where
    the epilogue has them.
    """

    compute: str
    transposed: tuple[bool, bool]
    a: MatrixLayout
    b: MatrixLayout
    c: MatrixLayout
    d: MatrixLayout
    epilogue: str
    alignments: tuple[int, int, int, int]
    workspace: int
    bias: DType | None = None
    aux: tuple[int, int, int] | None = None


class NvmathModules:
    """nvmath's modules and enumerations, as far as they are used."""

    def __init__(self) -> None:
        from nvmath import CudaDataType
        from nvmath.bindings import cublas, cublasLt

        self.lt: Any = cublasLt
        self.compute: Any = cublas.ComputeType
        self.operation: Any = cublas.Operation
        self.types: Any = CudaDataType


DOOR = Door(
    "cublasLt",
    "nvmath-python",
    NvmathModules,
    lambda found: found.lt.get_version(),
    lambda found: found.lt.create(),
    1024,
)
NAME = DOOR.name


class LtCall:
    """A problem that is ready to be called: descriptors, and the algorithm.

    Calls with the same descriptors must not overlap, as these contain the bias and aux pointers.
    """

    def __init__(self, found: MatmulProblem, algorithm: Any, device: int) -> None:
        self.problem, self.algorithm, self.device = found, algorithm, device
        self.descriptors = Descriptors(found)
        self._pointers: dict[Any, int] = {}
        self._lt = DOOR.binding.lt

    def __call__(
        self, a: int, b: int, c: int, d: int, pointers: Mapping[str, int], scale: int, share: int, workspace: int,
        stream: int,
    ) -> None:  # fmt: skip
        """Launch on a stream; ``scale`` and ``share`` are addresses of numbers on the host."""
        made, attributes = self.descriptors, self._lt.MatmulDescAttribute
        for name, address in pointers.items():
            if self._pointers.get(name) != address:
                made.set(made.operation, attributes[name], ctypes.c_int64(address))
                self._pointers[name] = address
        try:
            self._lt.matmul(
                DOOR.handle(self.device), made.operation, scale, a, made.a, b, made.b, share, c, made.c, d, made.d,
                self.algorithm.ptr, workspace, self.problem.workspace, stream,
            )  # fmt: skip
        except self._lt.cuBLASLtError as error:
            raise DeviceError(f"cuBLASLt refused a product that it had an algorithm for: {error}") from None


class Descriptors:
    """cuBLASLt's objects for a problem, destroyed with this one."""

    def __init__(self, found: MatmulProblem) -> None:
        with_types = DOOR.binding
        lt, types = with_types.lt, with_types.types
        single = types[CUDA_TYPES["f64" if found.d.dtype.bits == 64 else "f32"]]
        self._lt = lt
        self._made: list[tuple[Any, int]] = []
        weakref.finalize(self, _destroy, self._made).atexit = False
        self.operation = self._add(lt.matmul_desc_destroy, lt.matmul_desc_create(
            with_types.compute[found.compute], single))  # fmt: skip
        self._describe(found, with_types)
        self.a, self.b, self.c, self.d = (self._layout(m) for m in (found.a, found.b, found.c, found.d))

    def _describe(self, found: MatmulProblem, names: Any) -> None:
        attributes, epilogue = self._lt.MatmulDescAttribute, self._lt.Epilogue[found.epilogue]
        for attribute, flag in ((attributes.TRANSA, found.transposed[0]), (attributes.TRANSB, found.transposed[1])):
            self.set(self.operation, attribute, ctypes.c_int32(names.operation["T" if flag else "N"]))
        self.set(self.operation, attributes.EPILOGUE, ctypes.c_uint32(epilogue))
        if found.bias is not None:
            kind = names.types[CUDA_TYPES[found.bias.name]]
            self.set(self.operation, attributes.BIAS_DATA_TYPE, ctypes.c_int32(kind))
            # the choice depends on the alignment of the pointer, which is read off its value
            self.set(self.operation, attributes.BIAS_POINTER, ctypes.c_int64(found.bias.itemsize))
        if found.aux is not None:
            ld, batch, alignment = found.aux
            self.set(self.operation, attributes.EPILOGUE_AUX_LD, ctypes.c_int64(ld))
            self.set(self.operation, attributes.EPILOGUE_AUX_POINTER, ctypes.c_int64(alignment))
            if batch:
                self.set(self.operation, attributes.EPILOGUE_AUX_BATCH_STRIDE, ctypes.c_int64(batch))

    def _layout(self, matrix: MatrixLayout) -> int:
        lt, kind = self._lt, DOOR.binding.types[CUDA_TYPES[matrix.dtype.name]]
        made = self._add(
            lt.matrix_layout_destroy, lt.matrix_layout_create(kind, matrix.rows, matrix.columns, matrix.ld)
        )
        if matrix.count > 1:
            pairs = (
                ("BATCH_COUNT", ctypes.c_int32(matrix.count)),
                ("STRIDED_BATCH_OFFSET", ctypes.c_int64(matrix.batch)),
            )
            for name, value in pairs:
                address, length = ctypes.addressof(value), ctypes.sizeof(value)
                lt.matrix_layout_set_attribute(made, lt.MatrixLayoutAttribute[name], address, length)
        return made

    def set(self, made: int, attribute: Any, value: Any) -> None:
        """Set an attribute of the operation, which copies the value."""
        self._lt.matmul_desc_set_attribute(made, attribute, ctypes.addressof(value), ctypes.sizeof(value))

    def _add(self, destroy: Any, made: int) -> int:
        self._made.append((destroy, made))
        return made


def _destroy(made: list[tuple[Any, int]]) -> None:
    for destroy, number in made:
        destroy(number)


def algorithm(found: MatmulProblem, device: int) -> Any:
    """The algorithm for a problem, as cuBLASLt's heuristics choose it, or why there is none, as text.

    Split sums are added in the compute type and in one order: the other schemes add in the result's type.
    """
    return DOOR.known((found, device), lambda: _ask(found, device))


def _ask(found: MatmulProblem, device: int) -> Any:
    lt, made = DOOR.binding.lt, Descriptors(found)
    names, preference = lt.MatmulPreferenceAttribute, lt.matmul_preference_create()
    values = {names.MAX_WORKSPACE_BYTES: ctypes.c_uint64(found.workspace),
              names.REDUCTION_SCHEME_MASK: ctypes.c_uint32(lt.ReductionScheme.COMPUTE_TYPE)}  # fmt: skip
    for name, bytes_ in zip("ABCD", found.alignments, strict=True):
        values[names[f"MIN_ALIGNMENT_{name}_BYTES"]] = ctypes.c_uint32(bytes_)
    result, count = lt.MatmulHeuristicResult(), ctypes.c_int32()
    try:
        for name, value in values.items():
            lt.matmul_preference_set_attribute(preference, name, ctypes.addressof(value), ctypes.sizeof(value))
        lt.matmul_algo_get_heuristic(
            DOOR.handle(device), made.operation, made.a, made.b, made.c, made.d, preference, 1, result.ptr,
            ctypes.addressof(count),
        )  # fmt: skip
    except lt.cuBLASLtError as error:
        return f"cuBLASLt has no algorithm for it: {error}"
    finally:
        lt.matmul_preference_destroy(preference)
    if not count.value or int(result.state) != 0:
        return "cuBLASLt has no algorithm for it"
    return result  # it begins with the algorithm


def prepare(found: MatmulProblem, device: int) -> LtCall | str:
    """A function that calls cuBLASLt for a problem, or why it does not take it."""
    chosen = algorithm(found, device)
    return chosen if isinstance(chosen, str) else LtCall(found, chosen, device)
