"""Orthogonal polynomials of computed degree, by their recurrences: ``torch.special`` without closed forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import zenith.numpy as znp
from zenith.control import while_loop
from zenith.numpy.typing import Array, ArrayLike
from zenith.torch.aten.rules import RULES, Context, Rule, rounded_once

Step = Callable[[Array, Array, Array, Array], Array]
_FEW = 8  # steps, beyond which Chebyshev's polynomials are trigonometric functions where they are bounded
_HERMITE = {np.dtype(np.float32): 128, np.dtype(np.float64): 512}  # the largest degrees that are numbers in PyTorch


def _by_recurrence(n: Array, x: Array, first: Array, step: Step, known: ArrayLike = False) -> Array:
    """The polynomial of degree n at x: 1, ``first``, then ``step(degree, x, last, before it)``.

    0 for negative degrees; what is ``known`` needs no steps.
    """
    degrees = znp.where(known, 0, n)

    def is_active(degree: Array, last: Array) -> Array:
        return (degree < degrees) & (last == last)

    def body(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        degree, before, last = state
        active, found = is_active(degree, last), step(znp.astype(degree, x.dtype), x, last, before)
        return degree + 1, znp.where(active, last, before), znp.where(active, found, last)

    start = (znp.ones((), np.int64), znp.ones_like(x), first)
    found = while_loop(lambda state: znp.any(is_active(state[0], state[2])), body, start)[2]
    return znp.where(n < 0, 0, znp.where(n == 0, 1, found))


def _chebyshev(kind: str, shifted: bool) -> Rule:
    """Chebyshev's of four kinds: all have one recurrence, and are trigonometric functions of ``arccos(x)``."""

    @rounded_once
    def computed(c: Context, x: ArrayLike, n: ArrayLike) -> Array:
        x, n = _operands(c, x, n)
        x = x + x - 1 if shifted else x
        first = {"t": x, "u": x + x, "v": x + x - 1, "w": x + x + 1}[kind]
        inside, edge = (n > _FEW) & (znp.abs(x) < 1), (n > _FEW) & (znp.abs(x) == 1)
        found = _by_recurrence(n, x, first, lambda k, x, q, p: (x + x) * q - p, inside | edge)
        degree = znp.astype(n, x.dtype)
        found = znp.where(inside, _trigonometric(kind, degree, znp.arccos(znp.where(inside, x, 0))), found)
        sign, high = 1 - 2 * znp.astype(n % 2, x.dtype), x > 0
        ends = {"t": (1, sign), "u": (degree + 1, sign * (degree + 1)), "v": (1, sign * (degree + degree + 1)),
                "w": (degree + degree + 1, sign)}[kind]  # fmt: skip
        return znp.where(edge, znp.where(high, *ends), found)

    return computed


def _trigonometric(kind: str, n: Array, angle: Array) -> Array:
    if kind == "t":
        return znp.cos(n * angle)
    if kind == "u":
        return znp.sin((n + 1) * angle) / znp.sin(angle)
    of = znp.cos if kind == "v" else znp.sin
    return of((n + 0.5) * angle) / of(angle / 2)


def _polynomial(first: Callable[[Array], Array], step: Step, limited: bool = False) -> Rule:
    @rounded_once
    def computed(c: Context, x: ArrayLike, n: ArrayLike) -> Array:
        x, n = _operands(c, x, n)
        beyond = n > _HERMITE[x.dtype] if limited else False
        found = _by_recurrence(n, x, first(x), step, beyond)
        return znp.where(beyond, znp.nan, found) if limited else found

    return computed


def _operands(c: Context, x: ArrayLike, n: ArrayLike) -> tuple[Array, Array]:
    """Both of one shape; degrees are whole."""
    x, n = znp.broadcast_arrays(*(znp.astype(znp.asarray(a), c.dtype) for a in (x, n)))
    return x, znp.astype(n, np.int64)


for _kind in "tuvw":
    RULES[f"special_chebyshev_polynomial_{_kind}"] = _chebyshev(_kind, False)
    RULES[f"special_shifted_chebyshev_polynomial_{_kind}"] = _chebyshev(_kind, True)

RULES |= {
    "special_hermite_polynomial_h": _polynomial(lambda x: x + x, lambda k, x, q, p: (x + x) * q - 2 * k * p, True),
    "special_hermite_polynomial_he": _polynomial(lambda x: x, lambda k, x, q, p: x * q - k * p, True),
    "special_laguerre_polynomial_l": _polynomial(
        lambda x: 1 - x, lambda k, x, q, p: ((k + k + (1 - x)) * q - k * p) / (k + 1)
    ),
    "special_legendre_polynomial_p": _polynomial(
        lambda x: x, lambda k, x, q, p: ((k + k + 1) * x * q - k * p) / (k + 1)
    ),
}
