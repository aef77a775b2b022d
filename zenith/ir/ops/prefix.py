"""Along an axis, what all elements up to each one join to: sum, product, max, min, logsumexp, a linear recurrence.

With ``reverse`` all elements from each one on. Derivatives are prefixes too: of sums, sums in the opposite direction;
of products and sums of exponentials, linear recurrences, which divide by nothing (zeros do no harm) and whose factors
never overflow (Blelloch, "Prefix Sums and Their Applications", 1990, for recurrences as prefixes of pairs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from zenith.ir.builder import Builder, Cotangents, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Value
from zenith.ir.lowering import ComplexRule, Identity, Prefix
from zenith.ir.ops.common import (
    all_batched,
    arrays,
    random_array,
    require_axis,
    require_kind,
    require_same_dtype,
    require_same_shape,
    rng,
    rounded,
    sample,
    wide,
)
from zenith.ir.ops.complex_product import products_so_far, recurrence_so_far
from zenith.ir.ops.reduce import highest, lowest
from zenith.ir.primitive import Evaluate, JvpRule, Params, Primitive, Sample, VjpRule, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, int64, kind_of

INF = float("inf")
Accumulate = Callable[..., NDArray]  # of operands whose axis is the first, to a result like the last


def _evaluate(accumulate: Accumulate) -> Evaluate:
    """The reference along any axis, in either direction."""

    def evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
        moved = [np.moveaxis(v, params["axis"], 0) for v in wide(values)]
        if params["reverse"]:
            moved = [v[::-1] for v in moved]
        with np.errstate(all="ignore"):
            out = accumulate(*moved)
        out = out[::-1] if params["reverse"] else out
        return (rounded(np.moveaxis(out, 0, params["axis"]), values[-1]),)

    return evaluate


def _of_ufunc(function: np.ufunc) -> Accumulate:
    return lambda x: function.accumulate(x, axis=0, dtype=x.dtype)


def _log_of_sums(x: NDArray) -> NDArray:
    """NumPy leaves the first element as it is; log(exp(-0.0)) is 0.0, and so it is in kernels."""
    return np.logaddexp.accumulate(x, axis=0, dtype=x.dtype) + 0.0


def _recur(a: NDArray, b: NDArray) -> NDArray:
    out, before = np.array(b), b.dtype.type(0)
    for i in range(len(out)):
        out[i] = before = a[i] * before + b[i]
    return out


def _samples(name: str, kinds: str, operands: int) -> Callable[[NumPyType], Iterable[Sample]]:
    def samples(dtype: NumPyType) -> Iterable[Sample]:
        if kind_of(dtype) and kind_of(dtype) in kinds:
            generator = rng(name)
            for shape, axis, reverse in (((3, 35), 1, False), ((2, 3, 4), 1, True), ((9,), 0, True)):
                values = [random_array(generator, dtype, shape, -1.5, 1.5) for _ in range(operands)]
                yield sample(*values, axis=axis, reverse=reverse)

    return samples


def _prefix(
    name: str, doc: str, lowering: Prefix, accumulate: Accumulate, jvp: JvpRule, vjp: VjpRule, *,
    kinds: str = "iuf", operands: int = 1, ulp: float = 0,
) -> Primitive:  # fmt: skip
    def typing(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
        found = arrays(name, types, operands)
        require_kind(name, found[0], kinds)
        require_same_dtype(name, found)
        require_same_shape(name, found)
        require_axis(name, found[0], params["axis"])
        return (found[-1],)

    def batch(b: Builder, args: Values, batched: Sequence[bool], size: Dim, params: Params) -> Values:
        operands = all_batched(b, args, batched, size)
        return [getattr(b, name)(*operands, axis=params["axis"] + 1, reverse=params["reverse"])]

    return register(Primitive(
        name=name, doc=doc, params={"axis": "int", "reverse": "bool"}, typing=typing, evaluate=_evaluate(accumulate),
        lowering=lowering, jvp=jvp, vjp=vjp, batch=batch, ulp=ulp, effect=False,
        samples=_samples(name, kinds, operands),
    ))  # fmt: skip


# --- what derivatives are computed with ------------------------------------------------------------------------------


def _shifted(b: Builder, x: Value, fill: float, params: Params, following: bool = False) -> Value:
    """The element before each one, or the ``following`` one; ``fill`` at the end that has no such neighbour."""
    axis, rank = params["axis"], len(x.shape)
    first = params["reverse"] == following  # whether the element without a neighbour is the first one
    one = tuple(int(a == axis) for a in range(rank))
    none = (0,) * rank
    number = b.literal(value=float(fill), dtype=x.dtype)
    padded = b.pad(x, number, low=one if first else none, high=none if first else one, interior=none)
    start = none if first else one
    stop = tuple(n + i for n, i in zip(x.shape, start, strict=True))
    return b.slice(padded, start=start, stop=stop, step=(1,) * rank)


def _opposite(params: Params) -> dict[str, Any]:
    return {"axis": params["axis"], "reverse": not params["reverse"]}


def _plus(b: Builder, x: Value | None, y: Value | None) -> Value | None:
    """A sum in which None is zero."""
    return y if x is None else x if y is None else b.add(x, y)


# --- sums ------------------------------------------------------------------------------------------------------------


def _cumsum_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    return [None if tangents[0] is None else b.cumsum(tangents[0], **params)]


def _cumsum_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    return [b.cumsum(cotangents[0], **_opposite(params))]


# --- linear recurrences, and products --------------------------------------------------------------------------------


def _recurrence_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    of_factors, of_terms = tangents
    if of_factors is not None:
        of_factors = b.mul(of_factors, _shifted(b, outputs[0], 0.0, params))
    moved = _plus(b, of_factors, of_terms)
    return [None if moved is None else b.recurrence(primals[0], moved, **params)]


def _recurrence_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    following = _shifted(b, primals[0], 0.0, params, following=True)
    of_terms = b.recurrence(following, cotangents[0], **_opposite(params))
    return [b.mul(of_terms, _shifted(b, outputs[0], 0.0, params)), of_terms]


def _cumprod_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if tangents[0] is None:
        return [None]
    return [b.recurrence(primals[0], b.mul(tangents[0], _shifted(b, outputs[0], 1.0, params)), **params)]


def _cumprod_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    following = _shifted(b, primals[0], 0.0, params, following=True)
    total = b.recurrence(following, cotangents[0], **_opposite(params))
    return [b.mul(total, _shifted(b, outputs[0], 1.0, params))]


# --- extremes --------------------------------------------------------------------------------------------------------


def _sources(b: Builder, x: Value, y: Value, params: Params) -> list[Value]:
    """An index array for each axis: where each element of the result comes from, the last of equal ones."""
    axis, shape = params["axis"], x.shape
    indices = [b.broadcast(b.iota(size=n, dtype=int64), shape=shape, axes=(a,)) for a, n in enumerate(shape)]
    attained = b.bit_or(b.eq(x, y), b.ne(x, x))
    if params["reverse"]:
        others = b.broadcast_scalar(b.cast(b.size(value=shape[axis]), dtype=int64), shape)
        indices[axis] = b.cummin(b.where(attained, indices[axis], others), **params)
    else:
        indices[axis] = b.cummax(b.where(attained, indices[axis], b.zeros_like(indices[axis])), **params)
    return indices


def _extreme_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if tangents[0] is None:
        return [None]
    return [b.gather(tangents[0], *_sources(b, primals[0], outputs[0], params))]


def _extreme_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    (x,) = primals
    return [b.scatter_add(b.zeros_like(x), cotangents[0], *_sources(b, x, outputs[0], params))]


# --- sums of exponentials --------------------------------------------------------------------------------------------


def _share(b: Builder, term: Value, total: Value) -> Value:
    """``exp(term - total)``, 1 where both are equal, infinite ones too."""
    return b.where(b.eq(term, total), b.full(1.0, term.dtype, term.shape), b.exp(b.sub(term, total)))


def _cumlogsumexp_jvp(b: Builder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Tangents:
    if tangents[0] is None:
        return [None]
    (y,) = outputs
    before = _share(b, _shifted(b, y, -INF, params), y)
    return [b.recurrence(before, b.mul(_share(b, primals[0], y), tangents[0]), **params)]


def _cumlogsumexp_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    (y,) = outputs
    following = _shifted(b, _share(b, _shifted(b, y, -INF, params), y), 0.0, params, following=True)
    total = b.recurrence(following, cotangents[0], **_opposite(params))
    return [b.mul(total, _share(b, primals[0], y))]


def _number(value: float) -> Identity:
    return lambda dtype: value if dtype.is_float or dtype.is_complex else int(value)


_prefix("cumsum", "The sum of all elements up to each one.", Prefix("x + y", _number(-0.0), 1), _of_ufunc(np.add),
        _cumsum_jvp, _cumsum_vjp, kinds="iufc", ulp=4)  # fmt: skip
_prefix("cumprod", "The product of all elements up to each one.",
        Prefix("x * y", _number(1.0), 1, ComplexRule(products_so_far, 24)), _of_ufunc(np.multiply), _cumprod_jvp,
        _cumprod_vjp, kinds="iufc", ulp=8)  # fmt: skip
_prefix("cummax", "The largest of all elements up to each one, nan from the first nan on; the derivative is that of "
        "the last element that attains it.", Prefix("maximum(x, y)", lowest, 1), _of_ufunc(np.maximum),
        _extreme_jvp, _extreme_vjp)  # fmt: skip
_prefix("cummin", "The smallest of all elements up to each one, nan from the first nan on; the derivative is that of "
        "the last element that attains it.", Prefix("minimum(x, y)", highest, 1), _of_ufunc(np.minimum),
        _extreme_jvp, _extreme_vjp)  # fmt: skip
_prefix("cumlogsumexp", "log of the sum of exp of all elements up to each one; a zero is 0.0, never -0.0.",
        Prefix("logaddexp(x, y)", _number(-INF), 30), _log_of_sums, _cumlogsumexp_jvp, _cumlogsumexp_vjp,
        kinds="f", ulp=8)  # fmt: skip
_prefix("recurrence", "y[i] = x[i] * y[i - 1] + z[i] for factors x and terms z, where y[-1] is 0.",
        Prefix("x * z + y", _number(0.0), 2, ComplexRule(recurrence_so_far, 40)),
        _recur, _recurrence_jvp,
        _recurrence_vjp, kinds="fc", operands=2, ulp=8)  # fmt: skip
