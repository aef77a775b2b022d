"""Complex numbers: real and imaginary parts, and what PyTorch defers, such as conjugation."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith.ir.types import kind_of
from zenith.torch.aten import corners
from zenith.torch.aten.rules import Context, rule, to
from zenith.trace.bind import b


@rule("view_as_real", "view_as_real_copy")
def _view_as_real(c: Context, x: Any) -> Any:
    return b.as_parts(x)


@rule("view_as_complex", "view_as_complex_copy")
def _view_as_complex(c: Context, x: Any) -> Any:
    return b.of_parts(x)


@rule("real")
def _real(c: Context, x: Any) -> Any:
    return znp.real(x)


@rule("imag")
def _imag(c: Context, x: Any) -> Any:
    return znp.imag(x)


@rule("complex")
def _complex(c: Context, real: Any, imag: Any) -> Any:
    return b.complex(*znp.broadcast_arrays(real, imag))


@rule("polar")
def _polar(c: Context, size: Any, angle: Any) -> Any:
    return b.complex(*znp.broadcast_arrays(size * znp.cos(angle), size * znp.sin(angle)))


@rule("conj", "_conj", "_conj_physical", "conj_physical", "_conj_copy")
def _conj(c: Context, x: Any) -> Any:
    return znp.conjugate(x) if kind_of(x.dtype) == "c" else x


@rule("resolve_conj", "resolve_neg")
def _resolved(c: Context, x: Any) -> Any:
    """Nothing is deferred here."""
    return x


@rule("abs")
def _abs(c: Context, x: Any) -> Any:
    return to(znp.absolute(x), c.dtype)


@rule("angle")
def _angle(c: Context, x: Any) -> Any:
    """Of real numbers 0 or pi, by their sign; PyTorch has 0 for -0.0."""
    if kind_of(x.dtype) == "c":
        return corners.angle(znp.imag(x), znp.real(x))
    x = to(x, c.dtype)
    return znp.where(znp.isnan(x), x, znp.where(x < 0, znp.pi, 0.0).astype(c.dtype))


@rule("sgn")
def _sgn(c: Context, x: Any) -> Any:
    return x if kind_of(x.dtype) == "b" else znp.sign(x)
