"""One generator of random well-typed programs, which drives every pass and every backend.

It reads the registry: a primitive added there appears in programs without a line here. There are several streams of
programs, each of which proposes other operations:

* ``any``: every primitive alike, on whatever there is (``tests/program_proposals.py``);
* ``calls``: with calls of libraries (``tests/program_calls.py``);
* ``rows``: in which reductions of trailing axes and what is computed from them follow each other;
* ``columns``: the same along other axes (both in ``tests/program_chains.py``);
* ``attention``: scores, masks, weights and products of all kinds (``tests/program_attention.py``);
* ``storage``: long ones in which many arrays are alive, changed in part and returned (``tests/program_storage.py``);
* ``joins``: arrays joined along an axis and read at positions that are checked (``tests/program_joins.py``).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import zenith.ir.ops  # noqa: F401  fills the registry
from tests.bounds import Bound, discarded, reference_bounds, violations
from tests.ir.cases import ALIKE
from tests.program_attention import begin_attention
from tests.program_calls import library_primitives, propose_call
from tests.program_chains import begin_columns, begin_rows
from tests.program_growth import LARGE, SMALL, Extent, Program, Rejected
from tests.program_joins import begin_joins
from tests.program_proposals import propose
from tests.program_storage import RETURNED, begin_storage
from tests.rewrite import specialize
from zenith.ir.graph import Graph
from zenith.ir.lowering import HostCall, NativeCall, Region
from zenith.ir.primitive import Primitive, all_primitives
from zenith.ir.types import DTYPES, DType, bool_, float32, float64, int64

__all__ = [
    "LARGE", "SMALL", "STREAMS", "Bound", "discarded", "generated_primitives", "random_program", "reference_bounds",
    "violations",
]  # fmt: skip

WIDE = tuple(t for t in DTYPES if not t.is_narrow and not t.is_complex and t not in ALIKE)
WITH_COMPLEX = tuple(t for t in DTYPES if t in (bool_, int64, float32, float64) or t.is_complex)
CYCLE = 4  # one in so many programs has 16-bit floats, another one integers of other widths or complex numbers
_CALLS = 0.5  # the share of calls among the operations of a program that has them
# Primitives with samples that no program has, and why.
LEFT_OUT = {
    **dict.fromkeys(
        ("float_bits", "bits_float"), "the bits of floats are others in the wider type that is the reference"
    ),
    **dict.fromkeys(("conv_blocks", "conv_blocks_weights"), "convolutions expand to it, and programs have these"),
    **dict.fromkeys(("conv_integer", "conv_blocks_integer"), "operands of two types: tests/quantization draws them"),
}


def generated_primitives() -> list[Primitive]:
    """The primitives of programs: all but calls, loops, branches, those without samples, and those left out above."""
    outside = (HostCall, NativeCall, Region)
    return [
        p for p in all_primitives()
        if not isinstance(p.lowering, outside) and p.name not in LEFT_OUT
        and any(list(p.samples(t.numpy)) for t in DTYPES)
    ]  # fmt: skip


def random_program(
    seed: int, size: int | None = None, symbolic: bool = True, stream: str = "any", extent: Extent = SMALL
) -> tuple[Graph, list[Any]]:
    """A program of ``size`` operations (by default as many as its stream has), and arguments for it.

    Literals are not counted. The same seed with ``symbolic=False`` gives the same program with every symbol replaced by
    its number. Another ``stream`` has other programs, and so has ``extent=LARGE``, on larger arrays.
    """
    rng = np.random.default_rng(zlib.crc32(f"program {seed}{_SUFFIX.get(stream, f' of {stream}')}".encode()))
    program = Program(rng, element_types(seed), extent)
    kind = STREAMS[stream]
    proposes = kind.begin(program)
    count = int(rng.integers(*kind.operations)) if size is None else size
    while program.operations < count:
        try:
            proposes()
        except Rejected:
            continue
    program.finish(kind.returned)
    graph = program.graph if symbolic else specialize(program.graph, program.sizes)
    return graph, program.args


def element_types(seed: int) -> tuple[DType, ...]:
    """The element types of a program: the wide ones, and in turn 16-bit floats, integers like them, complex numbers."""
    cycle, rest = divmod(seed, CYCLE)
    if rest == CYCLE - 1:
        return (*WIDE, *(t for t in DTYPES if t.is_narrow))
    if rest == CYCLE - 2:
        return (*WIDE, *(ALIKE[(cycle + step) % len(ALIKE)] for step in range(2)))
    return WITH_COMPLEX if rest == CYCLE - 3 else WIDE


def _begin_any(program: Program) -> Callable[[], None]:
    primitives = generated_primitives()
    program.begin()
    return lambda: propose(program, primitives[program.rng.integers(len(primitives))])


def _begin_with_calls(program: Program) -> Callable[[], None]:
    primitives = generated_primitives()
    program.begin()

    def proposes() -> None:
        if program.chance(_CALLS):
            propose_call(program, program.one(library_primitives()))
        else:
            propose(program, primitives[program.rng.integers(len(primitives))])

    return proposes


@dataclass(frozen=True)
class Stream:
    """Programs of one kind: ``begin`` returns the function that proposes one more operation.

    They have from so many to so many ``operations``; a share of the values that something has read is ``returned``.
    """

    begin: Callable[[Program], Callable[[], None]]
    operations: tuple[int, int] = (20, 41)
    returned: float = 0.0


STREAMS = {
    "any": Stream(_begin_any), "calls": Stream(_begin_with_calls), "rows": Stream(begin_rows),
    "columns": Stream(begin_columns), "attention": Stream(begin_attention),
    "storage": Stream(begin_storage, (50, 90), RETURNED), "joins": Stream(begin_joins, (8, 25)),
}  # fmt: skip
_SUFFIX = {"any": "", "calls": " with calls"}
