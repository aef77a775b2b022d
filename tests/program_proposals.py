"""What a random program may do next: any primitive, as its record in the registry describes it.

Elementwise primitives and reductions are proposed from their lowering and their samples' element types; what moves
elements has a hint below that chooses its parameters; everything else runs on its own samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.program_growth import Program, Rejected, dtypes_of, known, samples_of
from tests.program_indexing import (
    dynamic_slice,
    dynamic_update,
    gather,
    index_arrays,
    order_statistics,
    take,
    update_slice,
)
from tests.program_moves import argmax, broadcast, concat, pad, reshape, reverse, slice_of, transpose
from zenith.ir.graph import Value
from zenith.ir.lowering import Fold, Prefix, Scalar
from zenith.ir.primitive import Primitive, get
from zenith.ir.types import bool_


def propose(program: Program, primitive: Primitive) -> None:
    """An operation of a primitive; rejected where nothing fits."""
    hint = _HINTS.get(primitive.name)
    if hint is not None and not program.chance(0.1):
        hint(program, primitive.name)
    elif isinstance(primitive.lowering, Scalar) and not program.chance(0.05):
        elementwise(program, primitive, program.operand(primitive))
    elif isinstance(primitive.lowering, Prefix) and not program.chance(0.05):
        prefix(program, primitive)
    elif isinstance(primitive.lowering, Fold) and not program.chance(0.1):
        x = program.operand(primitive)
        program.emit(primitive.name, x, axes=program.subset(len(x.shape)) if x.shape else ())
    else:
        sampled(program, primitive)


def sampled(program: Program, primitive: Primitive) -> None:
    """The primitive on one of its own samples."""
    sample = program.one(samples_of(primitive, program.one(dtypes_of(program, primitive))))
    program.emit(primitive.name, *(program.constant(np.asarray(v)) for v in sample.values), **sample.params)


def elementwise(program: Program, primitive: Primitive, anchor: Value, **chosen: Any) -> None:
    """The primitive on a value and others of its shape; on a second try inside the range of the primitive's samples."""
    samples = samples_of(primitive, anchor.dtype)
    sample = program.one(samples)
    params = {**sample.params, **chosen}
    args = [program.find(known(np.asarray(v)), anchor.shape) for v in sample.values]
    args = [
        anchor if a.type == anchor.type and program.chance(0.7 if i == 0 else 0.1) else a for i, a in enumerate(args)
    ]
    try:
        program.emit(primitive.name, *args, **params)
    except Rejected:
        ranges = [[np.asarray(s.values[i]) for s in samples if np.size(s.values[i])] for i in range(len(args))]
        inside = [program.squash(a, _low(r), _high(r)) for a, r in zip(args, ranges, strict=True)]
        program.emit(primitive.name, *inside, **params)


def prefix(program: Program, primitive: Primitive) -> None:
    """The primitive along any axis of a value."""
    x = program.operand(primitive, least_rank=1)
    elementwise(program, primitive, x, axis=program.one(range(len(x.shape))))


def _low(arrays: Sequence[Any]) -> Any:
    return min(_real(a).min().item() for a in arrays)


def _high(arrays: Sequence[Any]) -> Any:
    return max(_real(a).max().item() for a in arrays)


def _real(array: Any) -> Any:
    return array.real if array.dtype.kind == "c" else array


# --- hints: parameters of what moves elements --------------------------------------------------------------------


def _same_shape(program: Program, name: str) -> None:
    elementwise(program, get(name), program.operand(get(name)))


def _literal(program: Program, name: str) -> None:
    dtype = program.one(program.dtypes)
    program.full(program.rng.integers(0, 9) / (2 if dtype.is_float else 1), dtype, ())


def _counter(program: Program, name: str) -> None:
    if name == "size":
        program.emit(name, value=program.size() + int(program.rng.integers(0, 3)))
    else:
        program.emit(
            name, size=program.size(), dtype=program.one([t for t in program.dtypes if t != bool_ and not t.is_complex])
        )


def _cast(program: Program, name: str) -> None:
    program.convert(program.pick(), program.one(program.dtypes))


def _scatter(program: Program, name: str) -> None:
    x = program.operand(get(name), least_rank=1)
    indices = index_arrays(program, x)
    updates = program.find(x.dtype, (*indices[0].shape, *x.shape[len(indices) :]))
    program.emit(name, x, updates, *indices)


def _matmul(program: Program, name: str) -> None:
    x = program.operand(get(name), least_rank=2)
    lead, inner = x.shape[:-2], x.shape[-1]
    fitting = [v for v in program.values if v.dtype == x.dtype and v.shape[:-1] == (*lead, inner)]
    if fitting and program.chance(0.8):
        program.emit(name, x, program.one(fitting))
    elif program.chance(0.5):
        axes = (*range(len(lead)), len(lead) + 1, len(lead))
        program.emit(name, x, program.emit("transpose", x, axes=axes))
    else:
        program.emit(name, x, program.find(x.dtype, (*lead, inner, program.size())))


def _checked(program: Program, name: str) -> None:
    """A check of what is computed, and never true."""
    x = program.pick()
    wrong = program.find(bool_, x.shape)
    program.emit(name, x, program.emit("bit_and", wrong, program.emit("bit_not", wrong)), why="a check fails")


_HINTS: dict[str, Callable[[Program, str], None]] = {
    "literal": _literal, "size": _counter, "iota": _counter, "cast": _cast, "broadcast": broadcast,
    "transpose": transpose, "reshape": reshape, "slice": slice_of, "reverse": reverse, "pad": pad, "concat": concat,
    "argmax": argmax, "take": take, "order_statistics": order_statistics, "gather": gather, "matmul": _matmul,
    **dict.fromkeys(("scatter_set", "scatter_add", "scatter_mul", "scatter_max", "scatter_min"), _scatter),
    "update_slice": update_slice, "dynamic_slice": dynamic_slice, "dynamic_update_slice": dynamic_update,
    "error_if": _checked, **dict.fromkeys(("real", "imag", "complex", "conj"), _same_shape),
}  # fmt: skip
