"""Random words: the block function from which every random number follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from zenith.errors import DTypeError
from zenith.ir.lowering import Scalar
from zenith.ir.ops import reference as ref
from zenith.ir.ops.common import arrays, require_same_shape, rng, sample
from zenith.ir.ops.elementwise import batch_elementwise
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, NumPyType, Type, int64

_DISCRETE = not_differentiable("it works on bits")
ROUNDS = 20


def _threefry_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    operands = arrays("threefry2x32", types, 2)
    if any(t.dtype != int64 for t in operands):
        raise DTypeError("threefry2x32 takes two int64 arrays", types=tuple(types), fix="cast the operands first")
    require_same_shape("threefry2x32", operands)
    return (operands[0],)


def _threefry_samples(dtype: NumPyType) -> Iterable[Sample]:
    if dtype == np.int64:
        generator, limits = rng("threefry2x32"), np.iinfo(np.int64)
        for shape in ((), (5,), (3, 4), (0, 2)):
            yield sample(*(generator.integers(limits.min, limits.max, shape, dtype, endpoint=True) for _ in range(2)))


register(Primitive(
    name="threefry2x32", doc="The word to which Threefry-2x32-20 maps a word y under the key x; a word is two halves "
    "of 32 bits, the first one high (Salmon, Moraes, Dror and Shaw, 2011).", params={}, typing=_threefry_type,
    evaluate=lambda values, params: (ref.threefry2x32(*values),),
    lowering=Scalar("threefry2x32(x, y)", 5 * ROUNDS + 20), jvp=_DISCRETE, vjp=_DISCRETE,
    batch=batch_elementwise("threefry2x32"), ulp=0, effect=False, samples=_threefry_samples,
))  # fmt: skip
