"""The instructions of tensor cores that Zenith uses: one table of operand types and shapes.

A *tensor core* multiplies small matrices whose elements are in the registers of a warp, ``D = A B + C`` with A of
``rows`` x ``terms`` and B of ``terms`` x ``columns``. Products are exact, or nearly; sums are float32. Shapes and the
architectures that have them are those of the PTX ISA (9.7.14, "Matrix multiply-accumulate operation using mma
instruction"). :mod:`zenith.backends.cuda.fragments` has the layout of elements in lanes and registers.

>>> instructions(float16, (7, 5))[0].name
'mma_m16n8k8_f16'
>>> instructions(bfloat16, (7, 5))
()
"""

from __future__ import annotations

from zenith.backends.tensor_core_tiles import MatrixInstruction
from zenith.ir.types import DType, bfloat16, float16, float32

TURING = (7, 5)  # the compute capability from which there is ldmatrix
AMPERE = (8, 0)  # from which there are cp.async, TF32 and bfloat16


INSTRUCTIONS = (
    MatrixInstruction(float16, "f16", 16, 8, 16, AMPERE),
    MatrixInstruction(bfloat16, "bf16", 16, 8, 16, AMPERE),
    MatrixInstruction(float32, "tf32", 16, 8, 8, AMPERE),
    MatrixInstruction(float16, "f16", 16, 8, 8, TURING),
)


def instructions(element: DType, capability: tuple[int, ...]) -> tuple[MatrixInstruction, ...]:
    """The instructions of a compute capability for operands of an element type, the largest first."""
    return tuple(i for i in INSTRUCTIONS if i.element == element and i.since <= tuple(capability[:2]))
