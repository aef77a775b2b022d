"""Complex numbers: real and imaginary parts, and what PyTorch defers, such as conjugation."""

from __future__ import annotations

import zenith.numpy as znp
from zenith.ir.types import kind_of
from zenith.numpy.typing import Array
from zenith.torch.aten import corners
from zenith.torch.aten.elementwise import sign
from zenith.torch.aten.rules import Context, rule, to
from zenith.trace.bind import b


@rule("view_as_real", "view_as_real_copy")
def _view_as_real(c: Context, x: Array) -> Array:
    return b.as_parts(x)


@rule("view_as_complex", "view_as_complex_copy")
def _view_as_complex(c: Context, x: Array) -> Array:
    return b.of_parts(x)


@rule("real")
def _real(c: Context, x: Array) -> Array:
    return znp.real(x)


@rule("imag")
def _imag(c: Context, x: Array) -> Array:
    return znp.imag(x)


@rule("complex")
def _complex(c: Context, real: Array, imag: Array) -> Array:
    return b.complex(*znp.broadcast_arrays(real, imag))


@rule("polar")
def _polar(c: Context, size: Array, angle: Array) -> Array:
    return b.complex(*znp.broadcast_arrays(size * znp.cos(angle), size * znp.sin(angle)))


@rule("conj", "_conj", "_conj_physical", "conj_physical", "_conj_copy")
def _conj(c: Context, x: Array) -> Array:
    return znp.conjugate(x) if kind_of(x.dtype) == "c" else x


@rule("resolve_conj", "resolve_neg")
def _resolved(c: Context, x: Array) -> Array:
    """Nothing is deferred here."""
    return x


@rule("abs")
def _abs(c: Context, x: Array) -> Array:
    return to(znp.absolute(x), c.dtype)


@rule("angle")
def _angle(c: Context, x: Array) -> Array:
    """Of real numbers 0 or pi, by their sign; PyTorch has 0 for -0.0."""
    if kind_of(x.dtype) == "c":
        return corners.angle(znp.imag(x), znp.real(x))
    x = to(x, c.dtype)
    return znp.where(znp.isnan(x), x, znp.where(x < 0, znp.pi, 0.0).astype(c.dtype))


@rule("sgn")
def _sgn(c: Context, x: Array) -> Array:
    return sign(x)
