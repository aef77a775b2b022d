"""The instructions of tensor cores that Zenith uses: one table, the only place where operand types and shapes stand.

A *tensor core* multiplies small matrices whose elements lie in the registers of a warp, ``D = A B + C`` with A of
``rows`` x ``terms`` and B of ``terms`` x ``columns``. Products are exact, or nearly; sums are float32. Shapes and the
architectures that have them are those of the PTX ISA (9.7.14, "Matrix multiply-accumulate operation using mma
instruction"). Which lane and register holds which element says :mod:`zenith.backends.cuda.fragments`.

>>> instructions(float16, (7, 5))[0].name
'mma_m16n8k8_f16'
>>> instructions(bfloat16, (7, 5))
()
"""

from __future__ import annotations

from dataclasses import dataclass

from zenith.ir.types import DType, bfloat16, float16, float32

WORD = 4  # bytes of a register
TURING = (7, 5)  # the compute capability from which there is ldmatrix
AMPERE = (8, 0)  # from which there are cp.async, TF32 and bfloat16


@dataclass(frozen=True, slots=True)
class MatrixInstruction:
    """One ``mma.sync``: the elements in memory, what they are rounded to (its PTX type), its shape, and who has it."""

    element: DType
    type: str
    rows: int
    columns: int
    terms: int
    since: tuple[int, int]

    @property
    def name(self) -> str:
        """The name that kernel sources use."""
        return f"mma_{self.shape}_{self.type}"

    @property
    def shape(self) -> str:
        """The shape as PTX writes it."""
        return f"m{self.rows}n{self.columns}k{self.terms}"

    @property
    def left_words(self) -> int:
        """The registers of a lane that hold its part of A."""
        return self.rows * self.terms * self.element.itemsize // (32 * WORD)

    @property
    def right_words(self) -> int:
        """The registers of a lane that hold its part of B."""
        return self.columns * self.terms * self.element.itemsize // (32 * WORD)

    @property
    def sums(self) -> int:
        """The registers of a lane that hold its part of C."""
        return self.rows * self.columns // 32

    @property
    def rounds(self) -> bool:
        """Whether elements are rounded before they are multiplied."""
        return self.type != self.element.name


INSTRUCTIONS = (
    MatrixInstruction(float16, "f16", 16, 8, 16, AMPERE),
    MatrixInstruction(bfloat16, "bf16", 16, 8, 16, AMPERE),
    MatrixInstruction(float32, "tf32", 16, 8, 8, AMPERE),
    MatrixInstruction(float16, "f16", 16, 8, 8, TURING),
)


def instructions(element: DType, capability: tuple[int, ...]) -> tuple[MatrixInstruction, ...]:
    """What a GPU of a compute capability has for operands of an element type, the largest first."""
    return tuple(i for i in INSTRUCTIONS if i.element == element and i.since <= tuple(capability[:2]))
