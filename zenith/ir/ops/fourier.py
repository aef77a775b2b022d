"""Discrete Fourier transforms: of complex arrays over some axes, of real ones over the last axis, and their inverses.

They are computed by pocketfft (M. Reinecke), as NumPy has it, whose inner loops kernels call, and on a GPU by CuPy with
cuFFT; functions of a namespace (``xp``) here are for CuPy, and with NumPy's the reference. ``norm`` says, as NumPy's
does, which of both directions divides by the number of points: ``"backward"``, ``"forward"``, or both by its root,
``"ortho"``. The transforms are linear and their matrices symmetric; so a transform of complex arrays is its own
transpose, and those of the others are each other's, up to the half of the spectrum that is not stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError
from zenith.ir.builder import Builder, Cotangents, Values
from zenith.ir.dims import Dim, dim, prove_equal
from zenith.ir.graph import Value
from zenith.ir.lowering import InnerLoop, TwoSteps
from zenith.ir.ops.common import (
    arrays,
    libraries_compute_in,
    moved_axes,
    numpy_call,
    random_array,
    require_axis,
    require_kind,
    require_wide,
    rng,
    same_op_jvp,
    sample,
)
from zenith.ir.ops.matrices import scaled
from zenith.ir.primitive import Params, Primitive, Sample, register
from zenith.ir.types import ArrayType, NDArray, NumPyType, Type, dtype_of, float32, int64

NORMS = ("backward", "ortho", "forward")
ULP = 64  # in units of the largest element; it grows with the logarithm of the number of points


def _last_axis(name: str, types: Sequence[Type], kind: str) -> ArrayType:
    (x,) = arrays(name, types, 1)
    require_kind(name, x, kind)
    require_wide(name, x)
    require_axis(name, x, x.rank - 1)
    return x


def _into(xp: Any, name: str, out: NDArray, *given: NDArray, **options: Any) -> Any:
    """A transform by a library, in the memory of ``out``, which NumPy alone takes as an argument."""
    function = getattr(xp.fft, name)
    if xp is np:
        return function(*given, **options, out=out)
    out[...] = function(*given, **options)
    return out


_UFUNCS = "numpy.fft._pocketfft_umath"
_COST = 8  # operations for a point
_SINGLE = str.maketrans("dD", "fF")  # characters of element types


def _inner_loop(
    x: ArrayType, axis: int, points: Dim, types: str, ufuncs: Sequence[str], params: Params, inverse: bool
) -> InnerLoop:
    """The loop over an axis in the precision of ``x``, of ``types`` in float64; of two ufuncs one for even numbers.

    Its factor is what the ``norm`` multiplies by.
    """
    types, of_complex = (t if x.dtype.real != float32 else t.translate(_SINGLE) for t in (types, "Dd->D"))
    divides = {"ortho": "1.0 / sqrt(x)", "backward" if inverse else "forward": "1.0 / x"}
    two_steps = TwoSteps(f"{_UFUNCS}.{'ifft' if inverse else 'fft'}", of_complex, inverse, types != of_complex)
    return InnerLoop(
        tuple(f"{_UFUNCS}.{name}" for name in ufuncs), types, "(n),()->(m)", points * _COST, axis=axis,
        choice=points % 2 if len(ufuncs) > 1 else dim(0), factor=(divides.get(params["norm"], "1.0"), points),
        two_steps=two_steps if axis == x.rank - 1 else None,
    )  # fmt: skip


# --- complex to complex ----------------------------------------------------------------------------------------------


def _complex(type: ArrayType) -> ArrayType:
    found = dtype_of(np.result_type(type.dtype.numpy, np.complex64))
    assert found is not None
    return type.with_dtype(found)


def _fft_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    (x,) = arrays("fft", types, 1)
    require_kind("fft", x, "fc")
    require_wide("fft", x)
    for axis in params["axes"]:
        require_axis("fft", x, axis)
    if len(set(params["axes"])) != len(params["axes"]):
        raise ShapeError(f"fft: an axis comes twice in {params['axes']}", types=(x,))
    return (_complex(x),)


def _of_kind(b: Builder, x: Value, cotangent: Value) -> Value:
    return cotangent if x.dtype.is_complex else b.real(cotangent)


def _fft(xp: Any, values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
    """One axis after the other, in the memory of the result."""
    found = values[0]
    for axis in params["axes"]:
        name = "ifft" if params["inverse"] else "fft"
        found = _into(xp, name, results[0], found, axis=axis, norm=params["norm"])
    if not params["axes"]:
        results[0][...] = found


def _fft_loops(operands: Sequence[ArrayType], results: Sequence[ArrayType], params: Params) -> list[InnerLoop]:
    (out,), inverse = results, params["inverse"]
    ufunc = ["ifft" if inverse else "fft"]
    return [_inner_loop(out, axis, out.shape[axis], "Dd->D", ufunc, params, inverse) for axis in params["axes"]]


def _fft_evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    out = np.empty(values[0].shape, np.result_type(values[0].dtype, np.complex64))
    _fft(np, values, [out], params)
    return (out,)


def _fft_samples(dtype: NumPyType) -> Iterable[Sample]:
    if libraries_compute_in(dtype):
        for shape, axes, inverse, norm in (
            ((8,), (0,), False, "backward"), ((3, 7), (1,), True, "backward"), ((4, 3, 5), (0, 2), False, "ortho"),
            ((2, 1, 6), (1, 2), True, "forward"),
        ):  # fmt: skip
            yield sample(random_array(rng("fft"), dtype, shape), axes=axes, inverse=inverse, norm=norm)


register(Primitive(
    name="fft", doc="The discrete Fourier transform over axes of a complex array, or its inverse.",
    params={"axes": "ints", "inverse": "bool", "norm": "text"}, typing=_fft_type,
    evaluate=_fft_evaluate, lowering=numpy_call("fft", _fft, _fft_loops), jvp=same_op_jvp("fft"),
    vjp=lambda b, primals, outputs, cts, params: [_of_kind(b, primals[0], b.fft(cts[0], **params))],
    batch=lambda b, args, batched, size, params: [b.fft(args[0], **{**params, "axes": moved_axes(params["axes"])})],
    ulp=ULP, effect=False, samples=_fft_samples,
))  # fmt: skip


# --- real to complex, and the inverse --------------------------------------------------------------------------------


def _rfft_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x = _last_axis("rfft", types, "f")
    return (_complex(x).with_shape((*x.shape[:-1], x.shape[-1] // 2 + 1)),)


def _rfft(xp: Any, values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
    _into(xp, "rfft", results[0], values[0], norm=params["norm"])


def _rfft_loops(operands: Sequence[ArrayType], results: Sequence[ArrayType], params: Params) -> list[InnerLoop]:
    (x,), ufuncs = operands, ["rfft_n_even", "rfft_n_odd"]
    return [_inner_loop(x, x.rank - 1, x.shape[-1], "dd->D", ufuncs, params, False)]


def _rfft_evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    return (np.fft.rfft(values[0], norm=params["norm"]),)


def _rfft_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    """The array whose conjugate spectrum is the cotangent, half of it where an element has a conjugate twin."""
    (x,), (cotangent,) = primals, cotangents
    spectrum = b.conj(cotangent)
    halved = b.where(_has_no_twin(b, cotangent, x.shape[-1]), spectrum, scaled(b, spectrum, 0.5))
    return [b.irfft(halved, size=x.shape[-1], norm=_reversed(params["norm"]))]


def _reversed(norm: str) -> str:
    """What divides in the other direction."""
    return NORMS[::-1][NORMS.index(norm)]


def _has_no_twin(b: Builder, spectrum: Value, size: Dim) -> Value:
    """Whether an element of half a spectrum is not the conjugate of one that is not stored: the first, the middle."""
    index = b.iota(size=spectrum.shape[-1], dtype=int64)
    last = b.broadcast_scalar(b.cast(b.size(value=size), dtype=int64), index.shape)
    found = b.bit_or(b.eq(index, b.zeros_like(index)), b.eq(b.add(index, index), last))
    return b.broadcast(found, shape=spectrum.shape, axes=(len(spectrum.shape) - 1,))


def _rfft_samples(dtype: NumPyType) -> Iterable[Sample]:
    if libraries_compute_in(dtype) and dtype.kind == "f":
        for shape, norm in (((8,), "backward"), ((3, 7), "ortho"), ((2, 3, 1), "forward"), ((4, 2), "backward")):
            yield sample(random_array(rng("rfft"), dtype, shape), norm=norm)


register(Primitive(
    name="rfft", doc="The first half of the discrete Fourier transform over the last axis of a real array.",
    params={"norm": "text"}, typing=_rfft_type, evaluate=_rfft_evaluate,
    lowering=numpy_call("fft", _rfft, _rfft_loops), jvp=same_op_jvp("rfft"), vjp=_rfft_vjp,
    batch=lambda b, args, batched, size, params: [b.rfft(args[0], **params)], ulp=ULP, effect=False,
    samples=_rfft_samples,
))  # fmt: skip


def _irfft_type(types: Sequence[Type], params: Params) -> tuple[ArrayType]:
    x, size = _last_axis("irfft", types, "c"), params["size"]
    if (size.static is not None and size.static < 1) or prove_equal(x.shape[-1], size // 2 + 1) is False:
        raise ShapeError(f"irfft: {size} points have {size // 2 + 1} different elements in their spectrum", types=(x,))
    return (ArrayType(x.dtype.real, (*x.shape[:-1], size)),)


def _irfft(xp: Any, values: Sequence[NDArray], results: Sequence[NDArray], params: Params) -> None:
    _into(xp, "irfft", results[0], values[0], results[0].shape[-1], norm=params["norm"])


def _irfft_loops(operands: Sequence[ArrayType], results: Sequence[ArrayType], params: Params) -> list[InnerLoop]:
    (out,) = results
    return [_inner_loop(out, out.rank - 1, out.shape[-1], "Dd->d", ["irfft"], params, True)]


def _irfft_evaluate(values: Sequence[NDArray], params: Params) -> tuple[NDArray]:
    return (np.fft.irfft(values[0], params["size"], norm=params["norm"]),)


def _irfft_vjp(b: Builder, primals: Values, outputs: Values, cotangents: Values, params: Params) -> Cotangents:
    """The conjugate spectrum of the cotangent; twice where an element also represents one that is not stored."""
    spectrum = b.conj(b.rfft(cotangents[0], norm=_reversed(params["norm"])))
    return [b.where(_has_no_twin(b, primals[0], params["size"]), spectrum, b.add(spectrum, spectrum))]


def _irfft_samples(dtype: NumPyType) -> Iterable[Sample]:
    if dtype.kind == "c":
        for shape, size, norm in (((5,), 8, "backward"), ((3, 4), 7, "ortho"), ((2, 3, 1), 1, "forward")):
            x = random_array(rng("irfft"), dtype, shape)
            x[..., 0] = x[..., 0].real  # the imaginary part says nothing there
            yield sample(x, size=size, norm=norm)


register(Primitive(
    name="irfft", doc="The real array of a number of points whose spectrum begins with the last axis.",
    params={"size": "size", "norm": "text"}, typing=_irfft_type, evaluate=_irfft_evaluate,
    lowering=numpy_call("fft", _irfft, _irfft_loops), jvp=same_op_jvp("irfft"), vjp=_irfft_vjp,
    batch=lambda b, args, batched, size, params: [b.irfft(args[0], **params)], ulp=ULP, effect=False,
    samples=_irfft_samples,
))  # fmt: skip
