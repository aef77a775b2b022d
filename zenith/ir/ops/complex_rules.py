"""Complex arithmetic by real and imaginary parts: each function writes one operation with a builder.

Products and quotients are NumPy's own formulas, so that infinities and nan come out as there.
"""

from __future__ import annotations

from zenith.ir.builder import Builder
from zenith.ir.graph import Value
from zenith.ir.lowering import ComplexRule
from zenith.ir.ops import complex_functions as f
from zenith.ir.ops.common import contracted
from zenith.ir.types import DType


def _both(b: Builder, x: Value) -> tuple[Value, Value]:
    return b.real(x), b.imag(x)


def multiply(b: Builder, x: Value, y: Value) -> Value:
    """The schoolbook product."""
    (xr, xi), (yr, yi) = _both(b, x), _both(b, y)
    return b.complex(b.sub(b.mul(xr, yr), b.mul(xi, yi)), b.add(b.mul(xr, yi), b.mul(xi, yr)))


def divide(b: Builder, x: Value, y: Value) -> Value:
    """R. L. Smith's quotient, by the ratio of the divisor's smaller part to its larger one; by 0, part by part.

    R. L. Smith, "Algorithm 116: complex division", Communications of the ACM 5, 1962.
    """
    (xr, xi), (yr, yi) = _both(b, x), _both(b, y)
    wide = b.ge(b.abs(yr), b.abs(yi))
    large, small = b.where(wide, yr, yi), b.where(wide, yi, yr)
    ratio = b.div(small, large)
    scale = b.div(b.full(1.0, large.dtype, large.shape), b.add(large, b.mul(small, ratio)))
    p, q = b.where(wide, xr, xi), b.where(wide, xi, xr)
    across = b.mul(b.sub(q, b.mul(p, ratio)), scale)
    real, imag = b.mul(b.add(p, b.mul(q, ratio)), scale), b.where(wide, across, b.neg(across))
    nothing, zero = b.bit_and(b.eq(yr, 0.0), b.eq(yi, 0.0)), b.abs(yr)
    return b.complex(b.where(nothing, b.div(xr, zero), real), b.where(nothing, b.div(xi, zero), imag))


def equal(b: Builder, x: Value, y: Value) -> Value:
    """Both parts are equal."""
    (xr, xi), (yr, yi) = _both(b, x), _both(b, y)
    return b.bit_and(b.eq(xr, yr), b.eq(xi, yi))


def not_equal(b: Builder, x: Value, y: Value) -> Value:
    """One of the parts differs."""
    (xr, xi), (yr, yi) = _both(b, x), _both(b, y)
    return b.bit_or(b.ne(xr, yr), b.ne(xi, yi))


def cast(b: Builder, x: Value, dtype: DType) -> Value:
    """A real number gets the imaginary part 0, a complex one loses its own; it is true where it is not 0."""
    if not x.dtype.is_complex:
        real = b.cast(x, dtype=dtype.real)
        return b.complex(real, b.zeros_like(real))
    if dtype.kind == "b":
        return b.ne(x, b.zeros_like(x))
    if not dtype.is_complex:
        return b.cast(b.real(x), dtype=dtype)
    return b.complex(*(b.cast(part, dtype=dtype.real) for part in _both(b, x)))


def matmul(b: Builder, x: Value, y: Value) -> Value:
    """One real product, whose left factor is x as stored: a row ``re im re im ...`` is twice as long.

    Each element of y becomes the matrix that multiplies ``(re, im)`` by it: ``re im`` above ``-im re``. So a row of the
    product is ``re im re im ...``, too. It takes as many operations as the four real products of the parts. A product
    with a vector reads each element once, and is a sum of products.
    """
    (*batch, rows, terms), columns = x.shape, y.shape[-1]
    if columns == 1:
        return b.reshape(contracted(b, x, y, len(batch) + 1), shape=(*batch, rows, columns))
    if rows == 1:
        return b.reshape(contracted(b, y, x, len(batch)), shape=(*batch, rows, columns))
    yr, yi = _both(b, y)
    above, below = b.interleave(yr, yi), b.interleave(b.neg(yi), yr)
    halves = [b.reshape(half, shape=(*batch, terms, 1, columns * 2)) for half in (above, below)]
    right = b.reshape(b.concat(*halves, axis=len(batch) + 1), shape=(*batch, terms * 2, columns * 2))
    left = b.reshape(b.as_parts(x), shape=(*batch, rows, terms * 2))
    return b.of_parts(b.reshape(b.matmul(left, right), shape=(*batch, rows, columns, 2)))


COMPLEX_RULES: dict[str, ComplexRule] = {
    "mul": ComplexRule(multiply, 3),
    "div": ComplexRule(divide, 8),
    "eq": ComplexRule(equal, 0),
    "ne": ComplexRule(not_equal, 0),
    "cast": ComplexRule(cast, 0.5),
    "matmul": ComplexRule(matmul, 4),
    "sqrt": ComplexRule(f.sqrt, 4),
    "exp": ComplexRule(f.exp, 5),
    "expm1": ComplexRule(f.expm1, 6),
    "log": ComplexRule(f.log, 6),
    "log1p": ComplexRule(f.log1p, 6),
    "sin": ComplexRule(f.sin, 5),
    "cos": ComplexRule(f.cos, 5),
    "tan": ComplexRule(f.tan, 10),
    "sinh": ComplexRule(f.sinh, 5),
    "cosh": ComplexRule(f.cosh, 5),
    "tanh": ComplexRule(f.tanh, 10),
    "arcsin": ComplexRule(f.arcsin, 8),
    "arccos": ComplexRule(f.arccos, 8),
    "arctan": ComplexRule(f.arctan, 8),
    "arcsinh": ComplexRule(f.arcsinh, 8),
    "arccosh": ComplexRule(f.arccosh, 8),
    "arctanh": ComplexRule(f.arctanh, 8),
}
