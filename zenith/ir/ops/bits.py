"""Bit patterns of floating-point numbers, and the greatest common divisor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from zenith.errors import DTypeError
from zenith.ir.lowering import Scalar
from zenith.ir.ops.common import arrays, random_array, rng, sample
from zenith.ir.ops.elementwise import batch_elementwise, elementwise
from zenith.ir.primitive import Params, Primitive, Sample, not_differentiable, register
from zenith.ir.types import ArrayType, DType, NumPyType, Type, float32, float64, int32, int64

_DISCRETE = not_differentiable("it works on bits")
PATTERNS = {float32: int32, float64: int64}


def _reinterpret(name: str, doc: str, targets: dict[DType, DType]) -> None:
    """Register the primitive that gives the same bits as another type."""

    def typing(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
        (x,) = arrays(name, types, 1)
        if x.dtype not in targets:
            wanted = " or ".join(map(str, targets))
            raise DTypeError(f"{name} takes {wanted}, not {x}", types=tuple(types), fix="cast the operand first")
        return (x.with_dtype(targets[x.dtype]),)

    def samples(dtype: NumPyType) -> Iterable[Sample]:
        if dtype in {source.numpy for source in targets}:
            for shape in ((), (5,), (3, 4), (0, 2)):
                yield sample(random_array(rng(name), dtype, shape))

    evaluate: Callable[..., Any] = lambda values, params: (  # noqa: E731
        values[0].view(next(t.numpy for s, t in targets.items() if s.numpy == values[0].dtype)),
    )
    register(Primitive(
        name=name, doc=doc, params={}, typing=typing, evaluate=evaluate, lowering=Scalar(f"{name}(x)", 1),
        jvp=_DISCRETE, vjp=_DISCRETE, batch=batch_elementwise(name), ulp=0, effect=False, samples=samples,
    ))  # fmt: skip


_reinterpret("float_bits", "The bits of a float32 or float64 number as a signed integer of the same width.", PATTERNS)
_reinterpret("bits_float", "The float32 or float64 number with the bits of a signed integer of the same width.",
             {whole: real for real, whole in PATTERNS.items()})  # fmt: skip
elementwise("gcd", "The greatest common divisor, not negative; of x and 0 it is |x|.", "gcd(x, y)", np.gcd, _DISCRETE,
            kinds="iu", cost=200)  # fmt: skip
